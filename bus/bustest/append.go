package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

func appendCases() []testCase {
	return []testCase{
		{"append/comes back as it was", appendRoundTrip},
		{"append/several topics", appendSeveral},
		{"append/empty", appendEmpty},
		{"append/one queue per key", appendKeys},
		{"append/keyless in turn", appendKeyless},
		{"append/batch id", appendBatchID},
		{"append/missing topic", appendMissing},
		{"append/invalid event", appendInvalid},
		{"append/too large", appendTooLarge},
		{"append/large batch", appendLargeBatch},
		{"append/async", appendAsync},
		{"append/ended context", appendEnded},
	}
}

// rich is an event with everything an event can have.
func rich() event.Event {
	return event.Event{
		ID: "id/1 ü", Source: "/a?b=c", Type: "t", Subject: "s 1", Time: time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC),
		ContentType: "application/json; charset=utf-8", Schema: "urn:s", Key: "k\x00\xff",
		Ext: []event.Attr{
			{Name: "zb", Value: "true", Kind: event.Bool},
			{Name: "a1", Value: "-3", Kind: event.Int},
			{Name: "text", Value: "ünï\n", Kind: event.String},
		},
		Data: []byte("{\"a\":1}\x00\xff"),
	}
}

func appendRoundTrip(f *fixture) {
	t := f.topic("orders", 1)
	in := []event.Event{rich(), tombstone("t", "k"), ev("empty", "", ""), ev("plain", "k", "x")}
	before := time.Now().Add(-time.Minute)
	f.put("orders", in...)
	recs := f.queue("orders", 0)
	if len(recs) != len(in) {
		f.Fatalf("%d records, want %d", len(recs), len(in))
	}
	for i, r := range recs {
		f.same("event", r.Event, in[i])
		f.same("data nil", r.Data == nil, in[i].Data == nil)
		f.same("place", []any{r.Topic, r.Queue, r.Offset, r.Attempt}, []any{"orders", 0, int64(i), 0})
		f.same("origin", r.Origin, event.Ref{Topic: t.ID, Queue: 0, Offset: int64(i)})
		if r.Stored.Before(before) || r.Stored.After(time.Now().Add(time.Minute)) {
			f.Fatalf("stored at %s", r.Stored)
		}
	}
}

func appendSeveral(f *fixture) {
	f.topic("a", 1)
	f.topic("b", 1)
	at := f.append(bus.Batch{Writes: []bus.Write{
		{Topic: "a", Events: events("x", 2)}, {Topic: "b", Events: events("y", 1)}, {Topic: "a", Events: events("z", 1)},
	}})
	f.same("places", at, []bus.Appended{{Topic: "a", Offset: 0}, {Topic: "a", Offset: 1}, {Topic: "b", Offset: 0}, {Topic: "a", Offset: 2}})
	f.same("a", ids(f.queue("a", 0)), []string{"x0", "x1", "z0"})
	f.same("b", ids(f.queue("b", 0)), []string{"y0"})
}

func appendEmpty(f *fixture) {
	f.same("places", len(f.append(bus.Batch{})), 0)
	f.same("places with id", len(f.append(bus.Batch{ID: "x"})), 0)
	f.topic("a", 1)
	f.same("places without events", len(f.append(bus.Batch{Writes: []bus.Write{{Topic: "a"}}})), 0)
	f.same("bounds", f.bounds("a"), []bus.Bound{{}})
}

func appendKeys(f *fixture) {
	t := f.topic("orders", 5)
	var batch []event.Event
	for i := range 200 {
		batch = append(batch, ev(strconv.Itoa(i), fmt.Sprintf("key-%d", i%20), ""))
	}
	at := f.put("orders", batch[:100]...)
	for _, e := range batch[100:] {
		at = append(at, f.put("orders", e)...)
	}
	queueOf := map[string]int{}
	used := map[int]bool{}
	for i, a := range at {
		k := batch[i].Key
		if q, ok := queueOf[k]; ok && q != a.Queue {
			f.Fatalf("key %s in queues %d and %d", k, q, a.Queue)
		}
		queueOf[k] = a.Queue
		used[a.Queue] = true
	}
	if len(used) < 3 {
		f.Fatalf("20 keys in %d of 5 queues", len(used))
	}
	last := map[string]int{}
	for _, recs := range f.all(t) {
		for _, r := range recs {
			var n int
			_, err := fmt.Sscan(r.ID, &n)
			f.ok(err)
			if prev, ok := last[r.Key]; ok && prev >= n { // Invariant 4
				f.Fatalf("key %s: %d after %d", r.Key, n, prev)
			}
			last[r.Key] = n
			b := at[n]
			f.same("place", []any{r.Queue, r.Offset}, []any{b.Queue, b.Offset})
		}
	}
}

func appendKeyless(f *fixture) {
	f.topic("orders", 4)
	count := map[int]int{}
	for i := range 8 {
		at := f.put("orders", events(fmt.Sprint("w", i, "-"), 3)...)
		if at[0].Queue != at[1].Queue || at[1].Queue != at[2].Queue {
			f.Fatalf("one write in queues %v", at)
		}
		count[at[0].Queue]++
	}
	f.same("writes per queue", count, map[int]int{0: 2, 1: 2, 2: 2, 3: 2})
}

func appendBatchID(f *fixture) {
	f.topic("orders", 3)
	b := bus.Batch{ID: "batch-1", Writes: []bus.Write{{Topic: "orders", Events: []event.Event{ev("a", "k1", "1"), ev("b", "k2", "2"), ev("c", "", "3")}}}}
	first := f.append(b)
	f.put("orders", events("other", 3)...)
	f.same("again", f.append(b), first)
	f.same("and again", f.append(b), first)
	var n int64
	for _, q := range f.bounds("orders") {
		n += q.Next
	}
	f.same("stored", n, int64(6))
	b.ID = "batch-2"
	if at := f.append(b); at[0] == first[0] {
		f.Fatal("another id got the places of the first")
	}
}

func appendMissing(f *fixture) {
	f.topic("orders", 1)
	b := bus.Batch{
		Writes: []bus.Write{{Topic: "orders", Events: events("e", 2)}, {Topic: "nix", Events: events("e", 1)}},
		State:  []bus.Keyed{{Space: "s", Key: "k", Value: []byte("v")}},
	}
	_, err := f.c.Append(f.Context(), b)
	f.refused(err, bus.ErrNoTopic, "nix")
	f.same("nothing stored", f.bound("orders", 0), bus.Bound{})
	f.same("no state", f.scan(bus.TopicState, "s/"), []string{})
	f.topic("nix", 1)
	f.same("once it is there", len(f.append(b)), 3)
}

func appendInvalid(f *fixture) {
	f.topic("orders", 1)
	f.create(bus.Topic{Name: "latest", Type: bus.Compacted})
	spoil := map[string]func(*event.Event){
		"id":     func(e *event.Event) { e.ID = "" },
		"source": func(e *event.Event) { e.Source = "" },
		"type":   func(e *event.Event) { e.Type = "" },
		"Bad-N":  func(e *event.Event) { e.Ext = []event.Attr{{Name: "Bad-N", Value: "x"}} },
	}
	for field, change := range spoil {
		evs := events("e", 3)
		change(&evs[2])
		_, err := f.c.Append(f.Context(), bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: evs}}})
		f.refused(err, bus.ErrInvalid, "orders", "[2]", field)
		if e, _ := errors.AsType[*bus.Error](err); e.Field == "" {
			f.Fatalf("%v has no field", err)
		}
	}
	_, err := f.c.Append(f.Context(), bus.Batch{Writes: []bus.Write{{Topic: "latest", Events: []event.Event{ev("e", "", "x")}}}})
	f.refused(err, bus.ErrInvalid, "latest", "partitionkey")
	_, err = f.c.Append(f.Context(), bus.Batch{State: []bus.Keyed{{Space: "", Key: "k"}}})
	f.refused(err, bus.ErrInvalid, "state")
	f.same("nothing stored", f.bound("orders", 0), bus.Bound{})
}

func appendTooLarge(f *fixture) {
	f.topic("orders", 1)
	e := ev("big", "", "")
	e.Data = bytes.Repeat([]byte("x"), f.h.MaxEvent+1)
	_, err := f.c.Append(f.Context(), bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: []event.Event{ev("small", "", ""), e}}}})
	f.refused(err, bus.ErrTooLarge, "orders", "[1]", strconv.Itoa(f.h.MaxEvent))
	f.same("nothing stored", f.bound("orders", 0), bus.Bound{})
	e.Data = e.Data[:f.h.MaxEvent-4096]
	f.put("orders", e)
	recs := f.queue("orders", 0)
	f.same("just below", bytes.Equal(recs[0].Data, e.Data), true)
}

func appendLargeBatch(f *fixture) {
	t := f.topic("orders", 3)
	const n = 5000
	evs := make([]event.Event, n)
	for i := range evs {
		evs[i] = ev(strconv.Itoa(i), fmt.Sprintf("k%d", i%7), strings.Repeat("d", i%50))
	}
	evs[17].Key = ""
	at := f.put("orders", evs...)
	all := f.all(t)
	for i, a := range at {
		if got := all[a.Queue][a.Offset]; got.ID != evs[i].ID {
			f.Fatalf("event %d is said to be at %v, where %s is", i, a, got.ID)
		}
	}
}

func appendAsync(f *fixture) {
	f.create(bus.Topic{Name: "fast", Durability: bus.Async})
	f.topic("safe", 1)
	at := f.put("fast", events("e", 3)...)
	f.same("places", at[2].Offset, int64(2))
	// Readers never pass what is synced, so it may take a moment.
	var got []event.Record
	for len(got) < 3 {
		recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "fast", Next: int64(len(got))}}, bus.Limit{Wait: patience})
		f.ok(err)
		if len(recs) == 0 {
			f.Fatal("async events never became readable")
		}
		got = append(got, recs...)
	}
	f.same("read", ids(got), []string{"e0", "e1", "e2"})
	f.append(bus.Batch{Writes: []bus.Write{{Topic: "fast", Events: events("f", 1)}, {Topic: "safe", Events: events("s", 1)}}})
	f.same("the strictest setting counts", len(f.queue("fast", 0)), 4)
}

func appendEnded(f *fixture) {
	f.topic("orders", 1)
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	_, err := f.c.Append(ctx, bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: events("e", 1)}}})
	if !errors.Is(err, context.Canceled) {
		f.Fatalf("%v, want context.Canceled", err)
	}
}
