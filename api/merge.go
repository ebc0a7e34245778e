package api

import (
	"context"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

// maxAnswer is where the JSON of one answer is cut. Invariant 10.
const maxAnswer = 8 << 20

// merge reads queues of one topic as one sequence by the time the log took the
// records. Within a queue the order is that of the offsets.
type merge struct {
	client bus.Client
	topic  bus.Topic
	queues []queueHead
	// piece bounds what is read ahead of one queue.
	piece bus.Limit
}

// queueHead is what has been read ahead of one queue.
type queueHead struct {
	queue int
	next  int64 // offset to read after ahead
	ahead []event.Record
	dry   bool // nothing was there when last asked
}

func newMerge(client bus.Client, topic bus.Topic, from []bus.Cursor, limit int) *merge {
	m := &merge{client: client, topic: topic}
	for _, c := range from {
		m.queues = append(m.queues, queueHead{queue: c.Queue, next: c.Next})
	}
	n := max(len(from), 1)
	m.piece = bus.Limit{Records: min(limit, 2*limit/n+8), Bytes: max(maxAnswer/n, 16<<10)}
	return m
}

// next returns the next record by time, or false when there is none now.
func (m *merge) next(ctx context.Context) (event.Record, bool, error) {
	best := -1
	for i := range m.queues {
		q := &m.queues[i]
		if len(q.ahead) == 0 && !q.dry {
			if err := m.fill(ctx, q); err != nil {
				return event.Record{}, false, err
			}
		}
		if len(q.ahead) > 0 && (best < 0 || q.ahead[0].Stored.Before(m.queues[best].ahead[0].Stored)) {
			best = i
		}
	}
	if best < 0 {
		return event.Record{}, false, nil
	}
	q := &m.queues[best]
	r := q.ahead[0]
	q.ahead[0] = event.Record{} // what has been handed out can be freed
	q.ahead = q.ahead[1:]
	return r, true, nil
}

func (m *merge) fill(ctx context.Context, q *queueHead) error {
	cursor := bus.Cursor{Topic: m.topic.Name, ID: m.topic.ID, Queue: q.queue, Next: q.next}
	records, err := m.client.Read(ctx, []bus.Cursor{cursor}, m.piece)
	if err != nil {
		return err
	}
	q.ahead, q.dry = records, len(records) == 0
	if n := len(records); n > 0 {
		q.next = records[n-1].Offset + 1
	}
	return nil
}

// wait returns when some queue has something more, or after d.
func (m *merge) wait(ctx context.Context, d time.Duration) (bool, error) {
	if len(m.queues) == 0 { // a queue that is not there stays empty
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	cursors := make([]bus.Cursor, len(m.queues))
	for i, q := range m.queues {
		cursors[i] = bus.Cursor{Topic: m.topic.Name, ID: m.topic.ID, Queue: q.queue, Next: q.next}
		m.queues[i].dry = false
	}
	records, err := m.client.Read(ctx, cursors, bus.Limit{Records: 1, Wait: d})
	return len(records) > 0, err
}

// places returns, by queue, the offset of the first record not handed out.
func (m *merge) places() []bus.Cursor {
	out := make([]bus.Cursor, len(m.queues))
	for i, q := range m.queues {
		next := q.next
		if len(q.ahead) > 0 {
			next = q.ahead[0].Offset
		}
		out[i] = bus.Cursor{Topic: m.topic.Name, ID: m.topic.ID, Queue: q.queue, Next: next}
	}
	return out
}
