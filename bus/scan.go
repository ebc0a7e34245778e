package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/bus/commitlog"
	"millrace/bus/event"
	"millrace/bus/index"
)

// Scan implements Client.
func (b *Bus) Scan(ctx context.Context, topic, prefix, after string, limit int) ([]event.Record, error) {
	t := b.topics.Load().byName[topic]
	if t == nil {
		return nil, noTopic(topic)
	}
	if t.Type != Compacted {
		return nil, notCompacted(topic)
	}
	limit = defaultTo(limit, 1000)
	var out []event.Record
	for len(out) < limit {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		want := limit - len(out)
		entries, err := b.index.Keys(t.ID, prefix, after, want)
		if err != nil {
			return nil, err
		}
		for i := range entries {
			e := &entries[i]
			rec, ok, err := b.latest(t, e)
			if err != nil {
				return nil, fmt.Errorf("topic %s key %q: %w", topic, e.Key, corrupt(err))
			}
			if ok && rec.Data != nil {
				out = append(out, rec)
			}
			after = e.Key
		}
		if len(entries) < want {
			break
		}
	}
	return out, nil
}

func notCompacted(topic string) error {
	return &Error{Kind: ErrInvalid, Thing: "topic " + topic, Msg: "is not compacted: it has no latest record per key"}
}

// latest reads the record of an entry; false when a newer one took its place.
func (b *Bus) latest(t *topicState, e *index.Entry) (rec event.Record, ok bool, err error) {
	for range 10 {
		runs, err := b.index.Runs(e.Queue, e.Offset, e.Offset+1, 1)
		if err != nil {
			return rec, false, err
		}
		if len(runs) == 0 {
			// Superseded between the two look-ups: take what is the latest now.
			if e.Queue, e.Offset, ok, err = b.index.Key(t.ID, e.Key); err != nil || !ok {
				return rec, false, err
			}
			continue
		}
		r := reader{bus: b, limit: Limit{Records: 1, Bytes: 1}}
		err = r.run(t, e.Queue, &runs[0], e.Offset)
		if errors.Is(err, commitlog.ErrNotFound) {
			continue
		}
		if err != nil || len(r.out) == 0 {
			return rec, false, err
		}
		r.out[0].Key = e.Key // of a link: the link's
		return r.out[0], true, nil
	}
	return rec, false, nil
}

// Changed implements Client.
func (b *Bus) Changed(ctx context.Context, topic string, seen int64) (int64, error) {
	for {
		t := b.topics.Load().byName[topic]
		if t == nil {
			return 0, noTopic(topic)
		}
		if t.Type != Compacted {
			return 0, notCompacted(topic)
		}
		queues := make([]index.QueueID, t.Queues)
		for i := range queues {
			queues[i] = index.QueueID{Topic: t.ID, Queue: uint32(i)}
		}
		wt := b.watch.Register(queues)
		version, err := b.version(t, queues)
		if err != nil || version != seen {
			b.watch.Forget(wt)
			return version, err
		}
		_, err = b.wait(ctx, wt, nil)
		b.watch.Forget(wt)
		if err != nil {
			return 0, err
		}
	}
}

// version rises with every record; a topic made again has another one.
func (b *Bus) version(t *topicState, queues []index.QueueID) (int64, error) {
	v := int64(t.ID) << 40
	for _, id := range queues {
		q, err := b.index.Queue(id)
		if err != nil {
			return 0, err
		}
		v += q.Next
	}
	return v, nil
}

// eachKeyed calls f with the latest event of every key of a compacted topic.
func (b *Bus) eachKeyed(topic string, f func(*event.Event) error) error {
	after := ""
	for {
		recs, err := b.Scan(context.Background(), topic, "", after, 0)
		if err != nil {
			return err
		}
		for i := range recs {
			if err := f(&recs[i].Event); err != nil {
				return err
			}
			after = recs[i].Key
		}
		if len(recs) == 0 {
			return nil
		}
	}
}

func unmarshalOwn(topic string, e *event.Event, v any) error {
	if err := json.Unmarshal(e.Data, v); err != nil {
		return fmt.Errorf("topic %s key %q: %w: %w", topic, e.Key, ErrCorrupt, err)
	}
	return nil
}
