package bustest

import (
	"context"
	"errors"
	"strings"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

func readCases() []testCase {
	return []testCase{
		{"read/waits and wakes", readWakes},
		{"read/waits in vain", readVain},
		{"read/limits", readLimits},
		{"read/several cursors", readSeveral},
		{"read/before the first", readBefore},
		{"read/past the end", readPast},
		{"read/no such queue", readNoQueue},
		{"read/topic deleted meanwhile", readDeleted},
		{"read/ended context", readEnded},
		{"read/offset at a time", readOffsetAt},
	}
}

func readWakes(f *fixture) {
	f.topic("a", 2)
	f.topic("b", 1)
	f.put("b", events("old", 3)...)
	type answer struct {
		recs []event.Record
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "a"}, {Topic: "a", Queue: 1}, {Topic: "b", Next: 3}}, bus.Limit{Wait: 2 * patience})
		done <- answer{recs, err}
	}()
	select {
	case a := <-done:
		f.Fatalf("did not wait: %d records, %v", len(a.recs), a.err)
	case <-time.After(20 * time.Millisecond):
	}
	f.put("b", events("new", 1)...)
	select {
	case a := <-done:
		f.ok(a.err)
		f.same("woken by", ids(a.recs), []string{"new0"})
	case <-time.After(patience):
		f.Fatal("was not woken")
	}
}

func readVain(f *fixture) {
	f.topic("a", 1)
	start := time.Now()
	recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "a"}}, bus.Limit{Wait: 50 * time.Millisecond})
	f.ok(err)
	f.same("records", len(recs), 0)
	if d := time.Since(start); d < 45*time.Millisecond {
		f.Fatalf("waited %s", d)
	}
	recs, err = f.c.Read(f.Context(), []bus.Cursor{{Topic: "a"}}, bus.Limit{})
	f.ok(err)
	f.same("without waiting", len(recs), 0)
}

func readLimits(f *fixture) {
	f.topic("a", 1)
	var evs []event.Event
	for _, e := range events("e", 1200) {
		e.Data = []byte(strings.Repeat("x", 1000))
		evs = append(evs, e)
	}
	f.put("a", evs...)
	read := func(next int64, limit bus.Limit) []event.Record {
		f.Helper()
		recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "a", Next: next}}, limit)
		f.ok(err)
		for i, r := range recs {
			f.same("offset", r.Offset, next+int64(i))
		}
		return recs
	}
	f.same("three", ids(read(5, bus.Limit{Records: 3})), []string{"e5", "e6", "e7"})
	f.same("one, however large", len(read(0, bus.Limit{Bytes: 1})), 1)
	if n := len(read(0, bus.Limit{Bytes: 20_000})); n < 10 || n > 21 {
		f.Fatalf("%d records of 1000 bytes in 20,000", n)
	}
	f.same("default", len(read(0, bus.Limit{})), 1000)
	f.same("the rest", len(read(1000, bus.Limit{})), 200)
	f.same("beyond the default", len(read(0, bus.Limit{Records: 5000})), 1200)
}

func readSeveral(f *fixture) {
	f.topic("a", 1)
	f.topic("b", 1)
	f.put("a", events("a", 4)...)
	f.put("b", events("b", 4)...)
	read := func(limit bus.Limit, from ...bus.Cursor) []string {
		recs, err := f.c.Read(f.Context(), from, limit)
		f.ok(err)
		return ids(recs)
	}
	f.same("in the order of the cursors", read(bus.Limit{}, bus.Cursor{Topic: "b", Next: 2}, bus.Cursor{Topic: "a", Next: 3}), []string{"b2", "b3", "a3"})
	f.same("cut", read(bus.Limit{Records: 3}, bus.Cursor{Topic: "a", Next: 2}, bus.Cursor{Topic: "b"}), []string{"a2", "a3", "b0"})
	f.same("one at its end", read(bus.Limit{Wait: patience}, bus.Cursor{Topic: "a", Next: 4}, bus.Cursor{Topic: "b", Next: 3}), []string{"b3"})
}

func readBefore(f *fixture) {
	f.create(bus.Topic{Name: "orders", Retention: bus.Retention{Bytes: 1}})
	f.eventually("retention trims", func() bool {
		f.put("orders", events("e", 1)...)
		return f.bound("orders", 0).First > 0
	})
	// Retention may go on trimming, so the answer begins where the queue does now.
	f.put("orders", events("last", 1)...)
	first := f.bound("orders", 0).First
	recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "orders"}}, bus.Limit{})
	f.ok(err)
	if len(recs) > 0 && recs[0].Offset < first {
		f.Fatalf("read offset %d, the queue begins at %d", recs[0].Offset, first)
	}
}

func readPast(f *fixture) {
	f.topic("a", 1)
	f.put("a", events("e", 1)...)
	from := []bus.Cursor{{Topic: "a", Next: 3}}
	recs, err := f.c.Read(f.Context(), from, bus.Limit{Wait: 20 * time.Millisecond})
	f.ok(err)
	f.same("past the end", len(recs), 0)
	f.put("a", events("f", 2)...)
	recs, err = f.c.Read(f.Context(), from, bus.Limit{Wait: 20 * time.Millisecond})
	f.ok(err)
	f.same("still past the end", len(recs), 0)
	f.put("a", events("g", 1)...)
	recs, err = f.c.Read(f.Context(), from, bus.Limit{Wait: patience})
	f.ok(err)
	f.same("there", ids(recs), []string{"g0"})
}

func readNoQueue(f *fixture) {
	f.topic("a", 2)
	for _, q := range []int{2, -1} {
		_, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "a", Queue: q}}, bus.Limit{Wait: patience})
		f.refused(err, bus.ErrInvalid, "a", "queue")
		_, err = f.c.OffsetAt(f.Context(), "a", q, time.Now())
		f.refused(err, bus.ErrInvalid, "a", "queue")
	}
}

func readDeleted(f *fixture) {
	f.topic("a", 1)
	done := make(chan error, 1)
	go func() {
		_, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "a"}}, bus.Limit{Wait: 2 * patience})
		done <- err
	}()
	select {
	case err := <-done:
		f.Fatalf("did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	f.ok(f.c.DeleteTopic(f.Context(), "a", true))
	select {
	case err := <-done:
		f.refused(err, bus.ErrNoTopic, "a")
	case <-time.After(patience):
		f.Fatal("still waiting for a topic that is gone")
	}
}

func readEnded(f *fixture) {
	f.topic("a", 1)
	f.create(bus.Topic{Name: "latest", Type: bus.Compacted})
	f.within("Read", func(ctx context.Context) error {
		_, err := f.c.Read(ctx, []bus.Cursor{{Topic: "a"}}, bus.Limit{Wait: 2 * patience})
		return err
	})
	seen, err := f.c.Changed(f.Context(), "latest", -1)
	f.ok(err)
	f.within("Changed", func(ctx context.Context) error {
		_, err := f.c.Changed(ctx, "latest", seen)
		return err
	})
	ctx, cancel := context.WithTimeout(f.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = f.c.Read(ctx, []bus.Cursor{{Topic: "a"}}, bus.Limit{Wait: 2 * patience})
	if !errors.Is(err, context.DeadlineExceeded) {
		f.Fatalf("%v, want context.DeadlineExceeded", err)
	}
}

func readOffsetAt(f *fixture) {
	f.topic("a", 1)
	for range 5 {
		f.put("a", events("e", 2)...)
		<-time.After(2 * time.Millisecond)
	}
	recs := f.queue("a", 0)
	at := func(t time.Time) int64 {
		off, err := f.c.OffsetAt(f.Context(), "a", 0, t)
		f.ok(err)
		return off
	}
	if !recs[0].Stored.Before(recs[9].Stored) {
		f.Fatalf("stored at %s and, later, at %s", recs[0].Stored, recs[9].Stored)
	}
	for i, r := range recs {
		first := i
		for first > 0 && recs[first-1].Stored.Equal(r.Stored) {
			first--
		}
		f.same("at its time", at(r.Stored), int64(first))
		after := i
		for after < len(recs) && recs[after].Stored.Equal(r.Stored) {
			after++
		}
		f.same("just after", at(r.Stored.Add(time.Nanosecond)), int64(after))
	}
	f.same("long ago", at(time.Unix(0, 0)), int64(0))
	f.same("in a while", at(time.Now().Add(time.Hour)), int64(10))
}
