package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Runs returns the runs of a queue that hold offsets in [lo, hi), in order, at
// most limit of them (0 = all).
func (s *Store) Runs(id QueueID, lo, hi int64, limit int) ([]Run, error) {
	return overlapping(s.db, id, lo, hi, limit)
}

func overlapping(r pebble.Reader, id QueueID, lo, hi int64, limit int) (runs []Run, err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: queueKey(kindRun, id), UpperBound: runKey(id, hi)})
	if err != nil {
		return nil, fmt.Errorf("views: %w", err)
	}
	// The run that begins at or before lo may reach into the range.
	ok := it.SeekLT(runKey(id, lo+1))
	if !ok {
		ok = it.First()
	}
	for ; ok; ok = it.Next() {
		run, err := decodeRun(int64(binary.BigEndian.Uint64(it.Key()[13:])), it.Value())
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		if run.Last() < lo {
			continue
		}
		if runs = append(runs, run); limit > 0 && len(runs) == limit {
			break
		}
	}
	return runs, errors.Join(it.Error(), it.Close())
}

// Entry is the latest place of one key of a compacted topic.
type Entry struct {
	Key    string
	Queue  QueueID
	Offset int64
}

// Keys lists keys of a compacted topic that start with prefix, in order, after
// the key after ("" = from the first), at most limit.
func (s *Store) Keys(topic uint64, prefix, afterKey string, limit int) ([]Entry, error) {
	lower := keyKey(topic, prefix)
	upper := after(lower)
	if afterKey != "" && afterKey >= prefix {
		lower = append(keyKey(topic, afterKey), 0)
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, fmt.Errorf("views: %w", err)
	}
	var entries []Entry
	for ok := it.First(); ok && len(entries) < limit; ok = it.Next() {
		v := it.Value()
		if len(v) != 12 {
			return nil, errors.Join(errValue, it.Close())
		}
		entries = append(entries, Entry{
			Key:    string(it.Key()[9:]),
			Queue:  QueueID{Topic: topic, Queue: binary.BigEndian.Uint32(v)},
			Offset: int64(binary.BigEndian.Uint64(v[4:])),
		})
	}
	return entries, errors.Join(it.Error(), it.Close())
}

// PinnedBy returns the id of a topic whose live links refer to topic, if any.
func (s *Store) PinnedBy(topic uint64) (by uint64, ok bool, err error) {
	prefix := topicKey(kindPin, topic)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return 0, false, fmt.Errorf("views: %w", err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		// A topic's links to itself do not count.
		if by := binary.BigEndian.Uint64(it.Key()[21:]); by != topic {
			return by, true, it.Close()
		}
	}
	return 0, false, errors.Join(it.Error(), it.Close())
}

// Queues calls f for every queue that anything was put in, in order.
func (s *Store) Queues(f func(QueueID, Queue) error) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindQueue}, UpperBound: []byte{kindQueue + 1}})
	if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		q, err := decodeQueue(it.Value())
		if err == nil {
			k := it.Key()
			err = f(QueueID{Topic: binary.BigEndian.Uint64(k[1:]), Queue: binary.BigEndian.Uint32(k[9:])}, q)
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// Dead lists dead runs that nothing pins, at most limit: what the log may say
// is to be forgotten.
func (s *Store) Dead(limit int) ([]Place, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindDead}, UpperBound: []byte{kindDead + 1}})
	if err != nil {
		return nil, fmt.Errorf("views: %w", err)
	}
	var out []Place
	for ok := it.First(); ok && len(out) < limit; ok = it.Next() {
		k := it.Key()
		p := Place{
			Queue: QueueID{Topic: binary.BigEndian.Uint64(k[1:]), Queue: binary.BigEndian.Uint32(k[9:])},
			First: int64(binary.BigEndian.Uint64(k[13:])),
		}
		runs, err := overlapping(s.db, p.Queue, p.First, p.First+1, 1)
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		if len(runs) == 0 {
			continue
		}
		pinned, err := s.pinned(p.Queue, p.First, runs[0].Last())
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		if !pinned {
			out = append(out, p)
		}
	}
	return out, errors.Join(it.Error(), it.Close())
}

// Place is where a run begins.
type Place struct {
	Queue QueueID
	First int64
}

// pinned reports whether a live link refers to an offset in [lo, hi].
func (s *Store) pinned(id QueueID, lo, hi int64) (yes bool, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: binary.BigEndian.AppendUint64(queueKey(kindPin, id), uint64(max(0, lo-PinSpan))),
		UpperBound: binary.BigEndian.AppendUint64(queueKey(kindPin, id), uint64(hi)+1),
	})
	if err != nil {
		return false, fmt.Errorf("views: %w", err)
	}
	for ok := it.First(); ok && !yes; ok = it.Next() {
		yes = int64(binary.BigEndian.Uint64(it.Value())) >= lo
	}
	return yes, errors.Join(it.Error(), it.Close())
}
