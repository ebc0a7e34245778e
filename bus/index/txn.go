package index

import (
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Txn changes the views by what one or more frames say. Its reads see its own
// writes. Errors stick: Commit returns the first.
type Txn struct {
	b    *pebble.Batch
	meta Meta
	err  error
}

// Begin starts a transaction. There is one at a time.
func (s *Store) Begin() *Txn {
	t := &Txn{b: s.db.NewIndexedBatch()}
	t.meta, t.err = meta(t.b)
	return t
}

// Commit applies the transaction, which has reached log position applied. It is
// in memory afterwards and on disk at some later time.
func (t *Txn) Commit(applied uint64) error {
	t.meta.Applied = applied
	v := binary.BigEndian.AppendUint64(make([]byte, 0, 16), t.meta.Applied)
	t.set([]byte{kindMeta}, binary.BigEndian.AppendUint64(v, uint64(t.meta.Live)))
	if t.err != nil {
		_ = t.b.Close()
		return t.err
	}
	if err := t.b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("views: %w", err)
	}
	return t.b.Close()
}

// Append adds a run at the end of its queue.
func (t *Txn) Append(id QueueID, r Run) {
	t.put(id, r)
	if r.Keyed {
		t.latest(id, r)
	}
}

// Move says that a run now stands elsewhere in the log. It may be one that the
// store does not know.
func (t *Txn) Move(id QueueID, r Run) {
	if old, ok := t.run(id, r.First); ok {
		t.remove(id, old)
	}
	t.put(id, r)
	if !r.Keyed {
		return
	}
	if _, offset, ok, err := latest(t.b, id.Topic, r.Key); err != nil || !ok || offset < r.First {
		t.fail(err)
		t.setLatest(id, r)
	}
}

// Bound says that a queue holds no offset below first and that next comes next.
// What lies below first goes, unless a link pins it.
func (t *Txn) Bound(id QueueID, first, next int64) {
	q := t.queue(id)
	old := q.First
	q.First, q.Next = max(q.First, first), max(q.Next, next)
	t.setQueue(id, q)
	if q.First > old {
		t.collect(id, old, q.First-1)
	}
}

// Drop removes a topic with all it holds, pinned or not.
func (t *Txn) Drop(topic uint64) {
	prefix := topicKey(kindRun, topic)
	var queues []QueueID
	var runs []Run
	t.iterate(prefix, after(prefix), func(k, v []byte) bool {
		r, err := decodeRun(int64(binary.BigEndian.Uint64(k[13:])), v)
		t.fail(err)
		queues = append(queues, QueueID{Topic: topic, Queue: binary.BigEndian.Uint32(k[9:])})
		runs = append(runs, r)
		return true
	})
	for i := range runs {
		t.remove(queues[i], runs[i])
	}
	for _, kind := range []byte{kindQueue, kindKey} {
		p := topicKey(kind, topic)
		t.fail(t.b.DeleteRange(p, after(p), nil))
	}
	for i := range runs {
		t.unpin(queues[i], runs[i])
	}
}

// Know stores the outcome of a batch id.
func (t *Txn) Know(id string, k Known) { t.set(idKey(id), k.append(nil)) }

// ForgetID removes a batch id if it still stands at frame pos.
func (t *Txn) ForgetID(id string, pos uint64) {
	k, ok, err := known(t.b, id)
	t.fail(err)
	if ok && k.Pos == pos {
		t.fail(t.b.Delete(idKey(id), nil))
	}
}

// ForgetKey removes the record of a compacted topic at an offset, and its key
// if that was its latest: an old tombstone.
func (t *Txn) ForgetKey(id QueueID, offset int64) {
	r, ok := t.run(id, offset)
	if !ok {
		return
	}
	if _, at, ok, err := latest(t.b, id.Topic, r.Key); err != nil || ok && at == offset {
		t.fail(err)
		t.fail(t.b.Delete(keyKey(id.Topic, r.Key), nil))
	}
	t.remove(id, r)
}

// put writes a run's entry and its pins and counts it.
func (t *Txn) put(id QueueID, r Run) {
	t.set(runKey(id, r.First), r.append(nil))
	for _, p := range r.Pins {
		t.set(pinKey(p.Queue, p.Min, id, r.First), binary.BigEndian.AppendUint64(nil, uint64(p.Max)))
	}
	q := t.queue(id)
	q.Next = max(q.Next, r.First+int64(r.Count))
	q.Bytes += int64(r.Bytes)
	t.setQueue(id, q)
	t.meta.Live += int64(r.Bytes)
}

// remove deletes a run's entry and its pins and uncounts it; unpin must follow
// once the caller is done, where the run's pins may have been the last.
func (t *Txn) remove(id QueueID, r Run) {
	t.fail(t.b.Delete(runKey(id, r.First), nil))
	for _, p := range r.Pins {
		t.fail(t.b.Delete(pinKey(p.Queue, p.Min, id, r.First), nil))
	}
	q := t.queue(id)
	q.Bytes -= int64(r.Bytes)
	t.setQueue(id, q)
	t.meta.Live -= int64(r.Bytes)
}

// latest makes r the latest record of its key; the one before goes unless pinned.
func (t *Txn) latest(id QueueID, r Run) {
	q, offset, ok, err := latest(t.b, id.Topic, r.Key)
	t.fail(err)
	t.setLatest(id, r)
	if ok {
		t.collect(q, offset, offset)
	}
}

func (t *Txn) setLatest(id QueueID, r Run) {
	v := binary.BigEndian.AppendUint32(make([]byte, 0, 12), id.Queue)
	t.set(keyKey(id.Topic, r.Key), binary.BigEndian.AppendUint64(v, uint64(r.First)))
}

// collect removes the runs that overlap [lo, hi] and are dead: wholly below the
// queue's first, or superseded, and pinned by nothing.
func (t *Txn) collect(id QueueID, lo, hi int64) {
	q := t.queue(id)
	for _, r := range t.runs(id, lo, hi) {
		dead := r.Last() < q.First
		if !dead && r.Keyed {
			at, offset, ok, err := latest(t.b, id.Topic, r.Key)
			t.fail(err)
			dead = !ok || at != id || offset != r.First
		}
		if !dead || t.pinned(id, r.First, r.Last()) {
			continue
		}
		t.remove(id, r)
		t.unpin(id, r)
	}
}

// unpin collects what only the removed run r had kept.
func (t *Txn) unpin(_ QueueID, r Run) {
	for _, p := range r.Pins {
		t.collect(p.Queue, p.Min, p.Max)
	}
}

// pinned reports whether a live link refers to an offset in [lo, hi].
func (t *Txn) pinned(id QueueID, lo, hi int64) (yes bool) {
	from := binary.BigEndian.AppendUint64(queueKey(kindPin, id), uint64(max(0, lo-PinSpan)))
	to := binary.BigEndian.AppendUint64(queueKey(kindPin, id), uint64(hi)+1)
	t.iterate(from, to, func(_, v []byte) bool {
		yes = int64(binary.BigEndian.Uint64(v)) >= lo
		return !yes
	})
	return yes
}

// runs returns the runs of a queue that overlap [lo, hi].
func (t *Txn) runs(id QueueID, lo, hi int64) (runs []Run) {
	runs, err := overlapping(t.b, id, lo, hi+1, 0)
	t.fail(err)
	return runs
}

func (t *Txn) run(id QueueID, first int64) (r Run, ok bool) {
	t.fail(get(t.b, runKey(id, first), func(v []byte) (err error) {
		ok = true
		r, err = decodeRun(first, v)
		return err
	}))
	return r, ok
}

func (t *Txn) queue(id QueueID) Queue {
	q, err := queue(t.b, id)
	t.fail(err)
	return q
}

func (t *Txn) setQueue(id QueueID, q Queue) { t.set(queueKey(kindQueue, id), q.append(nil)) }

func (t *Txn) set(k, v []byte) { t.fail(t.b.Set(k, v, nil)) }

func (t *Txn) iterate(from, to []byte, f func(k, v []byte) bool) {
	it, err := t.b.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		t.fail(err)
		return
	}
	for it.First(); it.Valid(); it.Next() {
		if !f(it.Key(), it.Value()) {
			break
		}
	}
	t.fail(it.Error())
	t.fail(it.Close())
}

func (t *Txn) fail(err error) {
	if t.err == nil && err != nil {
		t.err = err
	}
}
