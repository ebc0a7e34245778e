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
	mark func(applied uint64) uint32
	meta Meta
	err  error
}

// Begin starts a transaction. There is one at a time.
func (s *Store) Begin() *Txn {
	t := &Txn{b: s.db.NewIndexedBatch(), mark: s.mark}
	t.meta, t.err = meta(t.b)
	return t
}

// Commit applies the transaction, which has reached log position applied. It is
// in memory afterwards and on disk at some later time.
func (t *Txn) Commit(applied uint64) error {
	t.meta.Applied = applied
	t.meta.Mark = t.mark(applied)
	v := binary.BigEndian.AppendUint64(make([]byte, 0, 20), t.meta.Applied)
	v = binary.BigEndian.AppendUint64(v, uint64(t.meta.Live))
	t.set([]byte{kindMeta}, binary.BigEndian.AppendUint32(v, t.meta.Mark))
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
	if !r.Keyed {
		return
	}
	q, offset, ok, err := latest(t.b, id.Topic, r.Key)
	t.fail(err)
	t.setLatest(id, r)
	if old, found := t.run(q, offset); ok && found {
		t.bury(q, old)
	}
}

// Move says that a run now stands elsewhere in the log. It may be one that the
// store does not know.
func (t *Txn) Move(id QueueID, r Run) {
	if old, ok := t.run(id, r.First); ok {
		t.remove(id, old)
	}
	t.put(id, r)
	if r.Last() < t.queue(id).First {
		t.bury(id, r)
	}
	if !r.Keyed {
		return
	}
	switch q, offset, ok, err := latest(t.b, id.Topic, r.Key); {
	case err != nil:
		t.fail(err)
	case !ok || q == id && offset < r.First:
		t.setLatest(id, r)
	case offset != r.First:
		t.bury(id, r)
	}
}

// Bound says that a queue holds no offset below first and that next comes next.
func (t *Txn) Bound(id QueueID, first, next int64) {
	q := t.queue(id)
	old := q.First
	q.First, q.Next = max(q.First, first), max(q.Next, next)
	t.setQueue(id, q)
	if q.First == old {
		return
	}
	runs, err := overlapping(t.b, id, old, q.First, 0)
	t.fail(err)
	for _, r := range runs {
		if r.Last() < q.First {
			t.bury(id, r)
		}
	}
}

// bury removes a dead run, one below its queue's first or superseded. Where
// links may refer to it, it is only marked: Forget removes it once the log says
// so. (Whether something is pinned cannot be told in the middle of a rebuild:
// the link may have been copied forward behind what it refers to.)
func (t *Txn) bury(id QueueID, r Run) {
	if r.Own {
		t.remove(id, r)
		return
	}
	t.set(deadKey(id, r.First), nil)
}

// Forget removes a dead run.
func (t *Txn) Forget(id QueueID, first int64) {
	if r, ok := t.run(id, first); ok {
		t.remove(id, r)
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

// remove deletes a run's entry, its pins and its mark, and uncounts it.
func (t *Txn) remove(id QueueID, r Run) {
	t.fail(t.b.Delete(runKey(id, r.First), nil))
	if !r.Own {
		t.fail(t.b.Delete(deadKey(id, r.First), nil))
	}
	for _, p := range r.Pins {
		t.fail(t.b.Delete(pinKey(p.Queue, p.Min, id, r.First), nil))
	}
	q := t.queue(id)
	q.Bytes -= int64(r.Bytes)
	t.setQueue(id, q)
	t.meta.Live -= int64(r.Bytes)
}

func (t *Txn) setLatest(id QueueID, r Run) {
	v := binary.BigEndian.AppendUint32(make([]byte, 0, 12), id.Queue)
	t.set(keyKey(id.Topic, r.Key), binary.BigEndian.AppendUint64(v, uint64(r.First)))
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
