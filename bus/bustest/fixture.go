package bustest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"

	"github.com/google/go-cmp/cmp"
)

// patience is how long a case waits for what must come; it is far beyond what
// a healthy client needs.
const patience = 30 * time.Second

// fixture is a harness with the words the cases are written in. Whatever goes
// wrong ends the case.
type fixture struct {
	*testing.T
	h Harness
	c bus.Client
}

func newFixture(t *testing.T, h Harness) *fixture {
	t.Helper()
	if h.Lease == 0 {
		h.Lease = 10 * time.Second
	}
	if h.MaxEvent == 0 {
		h.MaxEvent = 64 << 20
	}
	return &fixture{T: t, h: h, c: h.Client}
}

// ok ends the case on an error.
func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) same(what string, got, want any) {
	f.Helper()
	if d := cmp.Diff(want, got); d != "" {
		f.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// refused checks that err is of a kind and names things: a *bus.Error whose
// text holds every one of words.
func (f *fixture) refused(err, kind error, words ...string) {
	f.Helper()
	if !errors.Is(err, kind) {
		f.Fatalf("error is %v, want one of kind %q", err, kind)
	}
	e, ok := errors.AsType[*bus.Error](err)
	if !ok {
		f.Fatalf("error is %T (%v), want a *bus.Error", err, err)
	}
	for _, w := range words {
		if !strings.Contains(e.Error(), w) {
			f.Fatalf("error %q does not name %q", e, w)
		}
	}
}

// eventually tries until cond holds.
func (f *fixture) eventually(what string, cond func() bool) {
	f.Helper()
	deadline := time.After(patience)
	for pause := time.Millisecond; !cond(); pause = min(2*pause, 100*time.Millisecond) {
		select {
		case <-deadline:
			f.Fatalf("waited %s in vain: %s", patience, what)
		case <-time.After(pause):
		}
	}
}

// within runs call with a context that ends while it waits, and checks that it
// comes back promptly with that context's error.
func (f *fixture) within(what string, call func(context.Context) error) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan error, 1)
	go func() { done <- call(ctx) }()
	select {
	case err := <-done:
		f.Fatalf("%s did not wait: %v", what, err)
	case <-time.After(30 * time.Millisecond):
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			f.Fatalf("%s returned %v, want context.Canceled", what, err)
		}
	case <-time.After(patience):
		f.Fatalf("%s did not return after its context ended", what)
	}
}

func (f *fixture) reopen() {
	f.Helper()
	if f.h.Reopen == nil {
		f.Fatal("the harness cannot reopen: exclude this case")
	}
	f.c = f.h.Reopen(f.T)
}

// topic makes a topic of n queues.
func (f *fixture) topic(name string, n int) bus.Topic {
	f.Helper()
	return f.create(bus.Topic{Name: name, Queues: n})
}

func (f *fixture) create(t bus.Topic) bus.Topic {
	f.Helper()
	got, err := f.c.CreateTopic(f.Context(), t)
	f.ok(err)
	return got
}

// ev is an event whose data is text.
func ev(id, key, data string) event.Event {
	return event.Event{ID: id, Source: "/test", Type: "test.event", Key: key, ContentType: "text/plain", Data: []byte(data)}
}

// tombstone is an event without data.
func tombstone(id, key string) event.Event {
	e := ev(id, key, "")
	e.ContentType, e.Data = "", nil
	return e
}

// events makes n keyless events "<prefix>0" … .
func events(prefix string, n int) []event.Event {
	out := make([]event.Event, n)
	for i := range out {
		out[i] = ev(fmt.Sprintf("%s%d", prefix, i), "", fmt.Sprintf("data %s%d", prefix, i))
	}
	return out
}

func (f *fixture) append(b bus.Batch) []bus.Appended {
	f.Helper()
	at, err := f.c.Append(f.Context(), b)
	f.ok(err)
	return at
}

// put appends events to one topic.
func (f *fixture) put(topic string, evs ...event.Event) []bus.Appended {
	f.Helper()
	at := f.append(bus.Batch{Writes: []bus.Write{{Topic: topic, Events: evs}}})
	if len(at) != len(evs) {
		f.Fatalf("%d places for %d events", len(at), len(evs))
	}
	return at
}

// queue reads a whole queue of a normal topic and checks that its offsets are
// dense. Invariant 3.
func (f *fixture) queue(topic string, queue int) []event.Record {
	f.Helper()
	b := f.bound(topic, queue)
	var out []event.Record
	for next := b.First; next < b.Next; {
		recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: topic, Queue: queue, Next: next}}, bus.Limit{Wait: patience})
		f.ok(err)
		if len(recs) == 0 {
			f.Fatalf("%s/%d: nothing at %d although the queue holds [%d, %d)", topic, queue, next, b.First, b.Next)
		}
		for _, r := range recs {
			if r.Topic != topic || r.Queue != queue || r.Offset != next {
				f.Fatalf("record of %s/%d@%d where %s/%d@%d should be", r.Topic, r.Queue, r.Offset, topic, queue, next)
			}
			next++
		}
		out = append(out, recs...)
	}
	return out
}

// all reads every queue of a topic.
func (f *fixture) all(t bus.Topic) [][]event.Record {
	f.Helper()
	out := make([][]event.Record, t.Queues)
	for q := range out {
		out[q] = f.queue(t.Name, q)
	}
	return out
}

func (f *fixture) bounds(topic string) []bus.Bound {
	f.Helper()
	b, err := f.c.Bounds(f.Context(), topic)
	f.ok(err)
	return b
}

func (f *fixture) bound(topic string, queue int) bus.Bound {
	f.Helper()
	for _, b := range f.bounds(topic) {
		if b.Queue == queue {
			return b
		}
	}
	f.Fatalf("topic %s has no queue %d", topic, queue)
	return bus.Bound{}
}

// scan lists a compacted topic as key=data.
func (f *fixture) scan(topic, prefix string) []string {
	f.Helper()
	recs, err := f.c.Scan(f.Context(), topic, prefix, "", 0)
	f.ok(err)
	return keyData(recs)
}

func keyData(recs []event.Record) []string {
	out := []string{}
	for _, r := range recs {
		out = append(out, r.Key+"="+string(r.Data))
	}
	return out
}

func ids(recs []event.Record) []string {
	out := []string{}
	for _, r := range recs {
		out = append(out, r.ID)
	}
	return out
}

// own joins a group and waits until it owns all the slots.
func (f *fixture) own(group string, slots ...string) (bus.Member, map[string]bus.Owner) {
	f.Helper()
	m, err := f.c.Join(f.Context(), group, slots)
	f.ok(err)
	return m, f.await(group, m, len(slots))
}

// await calls Slots until the member owns n slots.
func (f *fixture) await(group string, m bus.Member, n int) map[string]bus.Owner {
	f.Helper()
	deadline := time.Now().Add(patience)
	for {
		slots, err := m.Slots(f.Context())
		f.ok(err)
		if len(slots) == n {
			return owners(group, slots)
		}
		if time.Now().After(deadline) {
			f.Fatalf("group %s: %d slots after %s, want %d", group, len(slots), patience, n)
		}
	}
}

func owners(group string, slots []bus.Slot) map[string]bus.Owner {
	out := map[string]bus.Owner{}
	for _, sl := range slots {
		out[sl.Name] = bus.Owner{Group: group, Slot: sl.Name, Epoch: sl.Epoch}
	}
	return out
}

func (f *fixture) checkpoint(group, slot string) bus.Saved {
	f.Helper()
	s, err := f.c.Checkpoint(f.Context(), group, slot)
	f.ok(err)
	return s
}

// save stores one checkpoint.
func (f *fixture) save(o bus.Owner, next int64) {
	f.Helper()
	f.append(bus.Batch{Saves: []bus.Checkpoint{{Owner: o, Next: next}}})
}
