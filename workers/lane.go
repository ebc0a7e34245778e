package workers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
	"millrace/transforms"
)

// laneDef says what becomes of the events of one topic that feeds a unit.
type laneDef struct {
	topic  string
	target string    // topic that takes the shaped events; "" = the unit's sink
	sink   *sinkDef  // of an http target; nil = the unit's own
	stages []stage   // in order
	policy policy    // of events that fail
	starts startsDef // where a slot begins that was never saved
}

// stage makes one step of a lane's shaping for a task.
type stage struct {
	make func(*task) (transforms.Transform, error)
	drop drop // why an event without a result is gone
}

// startsDef is where slots begin by their definition.
type startsDef struct {
	starts map[string]int64
	made   time.Time
}

// at is a slot's first offset: as it was fixed when the rule or connector was
// made, 0 for topics that are younger.
func (s *startsDef) at(slot string, t bus.Topic) int64 {
	if t.Created.After(s.made) {
		return 0
	}
	return s.starts[slot]
}

// lane is one queue on its way to the target. It outlives sessions: what failed
// is remembered while the sink is closed and opened again.
type lane struct {
	*laneDef
	i      int // the slot's number in the task
	slot   string
	queue  int
	id     uint64 // the topic's incarnation
	stages []transforms.Transform
	parks  *parks

	next  int64 // offset to read next
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
	if l.limit *= 2; l.limit >= maxRead {
		l.limit = 0
	}
}

// failure decides what follows when n records of the lane could not be written.
// A failing batch is cut down to the record that fails; that one follows the
// schedule of its policy. Invariant 6.
func (l *lane) failure(err error, n int, rec *event.Record, now time.Time, random float64) {
	l.limit = 1
	if n > 1 {
		if after, ok := asRetry(err); ok {
			l.retryAt = now.Add(after)
		}
		return
	}
	if l.failed == 0 {
		l.since = now
	}
	l.failed++
	l.head = rec.Offset
	pause, more := l.policy.retry.next(l.failed, now.Sub(l.since), random, err)
	switch {
	case more && !permanent(err):
	case l.policy.on(rec.Type) == block:
		pause = l.policy.retry.longest(random, err)
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
func (l *lane) shape(ctx context.Context, recs []event.Record, c *counters, out []shaped, fail func(parent int, err error)) ([]shaped, error) {
	in := make([]event.Event, len(recs))
	parents := make([]int, len(recs))
	for i := range recs {
		in[i], parents[i] = recs[i].Event, i
	}
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
		c.drop(l.laneDef.stages[s].drop, dropped+len(parents)-seen)
		parents = up
	}
	return out, nil
}

// origin is where the bytes of a record first stood, as "topic/queue/offset".
func (r *Runtime) origin(rec *event.Record) string {
	if o, ok := ext(&rec.Event, event.ExtOrigin); ok {
		return o
	}
	topic := rec.Topic
	if ref := rec.Origin; ref.Topic != 0 {
		if name, ok := r.topics.Load().byID[ref.Topic]; ok {
			topic = name
		} else {
			topic = "#" + strconv.FormatUint(ref.Topic, 10)
		}
		return topic + "/" + strconv.Itoa(ref.Queue) + "/" + strconv.FormatInt(ref.Offset, 10)
	}
	return topic + "/" + strconv.Itoa(rec.Queue) + "/" + strconv.FormatInt(rec.Offset, 10)
}

// maxHops ends what slips through the check for cycles of rules.
const maxHops = 16

// hopsOf is how many rules brought an event from topic to topic so far.
func hopsOf(e *event.Event) int {
	if len(e.Ext) == 0 {
		return 0
	}
	s, _ := ext(e, event.ExtHops)
	n, _ := strconv.Atoi(s) // absent = 0
	return n
}

var errHops = errors.New("the event passed 16 rules from topic to topic: look for rules that feed each other in a circle")

// marked is an event on its way from rec into another topic: it says where it
// first stood and counts its way.
func marked(e *event.Event, origin string, hops int) event.Event {
	out := *e
	out.Ext = make([]event.Attr, 0, len(e.Ext)+2)
	for _, a := range e.Ext {
		if !event.Reserved(a.Name) && a.Name != extRedrive {
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

// where says which event of a lane is meant.
func (l *lane) where(rec *event.Record) string {
	return fmt.Sprintf("%s/%d (event %s)", l.slot, rec.Offset, rec.ID)
}
