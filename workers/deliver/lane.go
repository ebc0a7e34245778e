package deliver

import (
	"context"
	"errors"
	"strconv"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/transforms"
	"millrace/workers/letters"
	"millrace/workers/loop"
)

// Unit delivers: the topic and http targets of a rule, or a sink connector.
type Unit struct {
	Name  string           // of the connector or rule
	Lanes map[string]*Lane // by topic that feeds it
	Sink  *Sink            // of a connector; nil for a rule
	Log   bool             // log every failed event
}

// Lane says what becomes of the events of one topic that feeds a unit.
type Lane struct {
	Topic  string
	Target string       // topic that takes the shaped events; "" = the unit's sink
	Sink   *Sink        // of an http target; nil = the unit's own
	Stages []loop.Stage // in order
	Policy loop.Policy  // of events that fail
	Starts loop.Starts  // where a slot begins that was never saved
}

// Sink opens a sink and bounds its batches.
type Sink struct {
	Open     func(context.Context, connectors.Env) (connectors.Sink, error)
	Records  int           // of one write, and between flushes
	Bytes    int           // likewise
	Interval time.Duration // written events wait no longer for their flush
}

// lane is one queue on its way to the target. It outlives sessions: what failed
// is remembered while the sink is closed and opened again.
type lane struct {
	*Lane
	i      int // the slot's number in the task
	slot   string
	queue  int
	id     uint64 // the topic's incarnation
	stages []transforms.Transform

	in      []event.Event // memory that shape uses again
	parents []int

	next  int64 // offset to read next
	reset bool  // saved is where somebody put it, not where the owner came
	saved int64 // checkpoint; -1 = none

	// held are records of the last write that failed one by one; the queue waits
	// until each was taken or given up.
	held []held
	last event.Record // the last one given to the target

	limit   int       // records per write while a failing one is sought; 0 = no limit
	head    int64     // offset of the record that failed last, alone
	failed  int       // tries of that record
	since   time.Time // of the first of them
	retryAt time.Time // nothing is tried before
	given   error     // not nil: the record at the head is not tried again
	blocked bool      // the status says so
	hasDead bool      // the dead-letter topic exists
}

// clean brings the lane back to its checkpoint for a new session.
func (l *lane) clean() {
	l.next, l.held = max(l.saved, 0), nil
}

// safe is the checkpoint that may be saved once all that was written is flushed.
func (l *lane) safe() int64 {
	if len(l.held) > 0 {
		return l.held[0].src.Offset
	}
	return l.next
}

func (l *lane) isolating() bool { return l.limit > 0 }

// passed notes that the head of the queue moved on.
func (l *lane) passed() {
	l.failed, l.given, l.retryAt = 0, nil, time.Time{}
	if l.limit *= 2; l.limit >= loop.MaxRead {
		l.limit = 0
	}
}

// failure decides what follows when n records of the lane could not be written.
// A failing batch is cut down to the record that fails; that one follows the
// schedule of its policy. Invariant 6.
func (l *lane) failure(err error, n int, rec *event.Record, now time.Time, random float64) {
	l.limit = 1
	if n > 1 {
		if after, ok := loop.Asked(err); ok {
			l.retryAt = now.Add(after)
		}
		return
	}
	if l.failed == 0 {
		l.since = now
	}
	l.failed++
	l.head = rec.Offset
	pause, more := l.Policy.Retry.Next(l.failed, now.Sub(l.since), random, err)
	switch {
	case more && !loop.Permanent(err):
	case l.Policy.On(rec.Type) == loop.Block:
		pause = l.Policy.Retry.Longest(random, err)
		l.blocked = true
	default:
		l.given, pause = err, 0
	}
	l.retryAt = now.Add(pause)
}

// shaped is one event ready for the target, with the record it came from.
type shaped struct {
	parent int
	event  event.Event
}

// shape runs the lane's stages over records. Failed ones are told by fail, the
// others are yielded in order. An error of a stage itself fails the batch.
func (l *lane) shape(ctx context.Context, recs []event.Record, c *loop.Counters, out []shaped, fail func(parent int, err error)) ([]shaped, error) {
	in, parents := l.in[:0], l.parents[:0]
	for i := range recs {
		in, parents = append(in, recs[i].Event), append(parents, i)
	}
	l.in, l.parents = in, parents
	for s, st := range l.stages {
		results, err := st.Apply(ctx, in)
		if err != nil {
			return out, err
		}
		if s == len(l.stages)-1 {
			in = nil
		} else {
			in = make([]event.Event, 0, len(results))
		}
		up := make([]int, 0, len(results))
		seen, dropped := 0, 0
		for i := range results {
			r := &results[i]
			dropped += max(0, r.Parent-seen)
			seen = max(seen, r.Parent+1)
			switch {
			case r.Err != nil:
				fail(parents[r.Parent], r.Err)
			case s == len(l.stages)-1:
				out = append(out, shaped{parents[r.Parent], r.Event})
			default:
				in, up = append(in, r.Event), append(up, parents[r.Parent])
			}
		}
		c.Drop(l.Lane.Stages[s].Drop, dropped+len(parents)-seen)
		parents = up
	}
	return out, nil
}

// marked is an event on its way from rec into another topic: it says where it
// first stood and counts its way.
func marked(e *event.Event, origin string, hops int) event.Event {
	out := *e
	out.Ext = make([]event.Attr, 0, len(e.Ext)+2)
	for _, a := range e.Ext {
		if !event.Reserved(a.Name) && a.Name != letters.ExtRedrive {
			out.Ext = append(out.Ext, a)
		}
	}
	out.Ext = append(out.Ext, event.Attr{Name: event.ExtOrigin, Value: origin},
		event.Attr{Name: event.ExtHops, Value: strconv.Itoa(hops)})
	return out
}

// asBatchError returns which records of a write failed one by one.
func asBatchError(err error) (map[int]error, bool) {
	var b *connectors.BatchError
	if errors.As(err, &b) && len(b.Failed) > 0 {
		return b.Failed, true
	}
	return nil, false
}
