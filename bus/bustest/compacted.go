package bustest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

func compactedCases() []testCase {
	return []testCase{
		{"compacted/latest per key", compactedLatest},
		{"compacted/pages", compactedPages},
		{"compacted/changed", compactedChanged},
		{"compacted/read in order", compactedRead},
		{"compacted/only compacted topics", compactedOnly},
		{"compacted/state", compactedState},
	}
}

func compactedLatest(f *fixture) {
	f.create(bus.Topic{Name: "latest", Type: bus.Compacted, Queues: 3})
	f.put("latest", ev("1", "a", "1"), ev("2", "b", "1"), ev("3", "a", "2"))
	f.put("latest", ev("4", "c", "1"))
	f.put("latest", ev("5", "b", "2"), ev("6", "b", "3"))
	f.same("latest", f.scan("latest", ""), []string{"a=2", "b=3", "c=1"})
	f.put("latest", tombstone("7", "b"), tombstone("8", "never"))
	f.same("without b", f.scan("latest", ""), []string{"a=2", "c=1"})
	f.put("latest", ev("9", "b", "4"))
	f.same("b is back", f.scan("latest", ""), []string{"a=2", "b=4", "c=1"})
	f.put("latest", ev("10", "empty", ""))
	f.same("empty is no tombstone", f.scan("latest", "e"), []string{"empty="})

	recs, err := f.c.Scan(f.Context(), "latest", "a", "", 0)
	f.ok(err)
	f.same("a whole record", recs[0].Event, ev("3", "a", "2"))
	f.same("topic", recs[0].Topic, "latest")
}

func compactedPages(f *fixture) {
	f.create(bus.Topic{Name: "latest", Type: bus.Compacted, Queues: 4})
	var evs []event.Event
	for i := range 1100 {
		evs = append(evs, ev(strconv.Itoa(i), fmt.Sprintf("x/%04d", i), strconv.Itoa(i)))
	}
	evs = append(evs, ev("w", "w", ""), ev("x", "x", ""), ev("y", "x0", ""), ev("z", "y/1", ""), ev("f", "x/\xff", ""))
	f.put("latest", evs...)
	keys := func(prefix, after string, limit int) []string {
		recs, err := f.c.Scan(f.Context(), "latest", prefix, after, limit)
		f.ok(err)
		out := []string{}
		for _, r := range recs {
			out = append(out, r.Key)
		}
		return out
	}
	f.same("first page", keys("x/", "", 3), []string{"x/0000", "x/0001", "x/0002"})
	f.same("next page", keys("x/", "x/0002", 2), []string{"x/0003", "x/0004"})
	f.same("after a key that is not there", keys("x/", "x/00025", 1), []string{"x/0003"})
	f.same("the end", keys("x/", "x/1098", 0), []string{"x/1099", "x/\xff"})
	f.same("nothing after", keys("x/", "x/\xff", 0), []string{})
	f.same("no such prefix", keys("q", "", 0), []string{})
	f.same("after but before the prefix", keys("y", "a", 0), []string{"y/1"})
	f.same("the default is 1000", len(keys("", "", 0)), 1000)
	f.same("more when asked", len(keys("", "", 2000)), 1105)
}

func compactedChanged(f *fixture) {
	f.create(bus.Topic{Name: "latest", Type: bus.Compacted})
	v, err := f.c.Changed(f.Context(), "latest", -1)
	f.ok(err)
	for i := range 3 {
		got := make(chan int64, 1)
		go func() {
			n, err := f.c.Changed(f.Context(), "latest", v)
			if err != nil {
				f.Error(err)
			}
			got <- n
		}()
		select {
		case n := <-got:
			f.Fatalf("changed to %d without a change", n)
		case <-time.After(20 * time.Millisecond):
		}
		f.put("latest", ev(strconv.Itoa(i), "k", "x"))
		select {
		case n := <-got:
			if n <= v {
				f.Fatalf("version %d after %d", n, v)
			}
			f.same("what is told is there", len(f.scan("latest", "k")), 1)
			v = n
		case <-time.After(patience):
			f.Fatal("no change told")
		}
	}
	ctx, cancel := context.WithTimeout(f.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := f.c.Changed(ctx, "latest", v); !errors.Is(err, context.DeadlineExceeded) {
		f.Fatalf("%v, want context.DeadlineExceeded", err)
	}
}

func compactedRead(f *fixture) {
	f.create(bus.Topic{Name: "latest", Type: bus.Compacted})
	f.put("latest", ev("1", "a", "1"), ev("2", "b", "1"), ev("3", "a", "2"))
	next, got := int64(0), map[string]string{}
	for next < 3 {
		recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "latest", Next: next}}, bus.Limit{Wait: patience})
		f.ok(err)
		for _, r := range recs {
			if r.Offset < next {
				f.Fatalf("offset %d after %d", r.Offset, next)
			}
			next = r.Offset + 1
			got[r.Key] = string(r.Data)
		}
	}
	f.same("read to the end", got, map[string]string{"a": "2", "b": "1"})
}

func compactedOnly(f *fixture) {
	f.topic("orders", 1)
	_, err := f.c.Scan(f.Context(), "orders", "", "", 0)
	f.refused(err, bus.ErrInvalid, "orders", "compacted")
	_, err = f.c.Changed(f.Context(), "orders", -1)
	f.refused(err, bus.ErrInvalid, "orders", "compacted")
}

func compactedState(f *fixture) {
	f.topic("orders", 1)
	f.append(bus.Batch{
		Writes: []bus.Write{{Topic: "orders", Events: events("e", 1)}},
		State: []bus.Keyed{
			{Space: "a", Key: "1", Value: []byte("one")},
			{Space: "a", Key: "2/x", Value: []byte{0, 255}},
			{Space: "ab", Key: "1", Value: []byte("other")},
			{Space: "a", Key: "empty", Value: []byte{}},
		},
	})
	f.same("space a", f.scan(bus.TopicState, "a/"), []string{"a/1=one", "a/2/x=\x00\xff", "a/empty="})
	f.append(bus.Batch{State: []bus.Keyed{{Space: "a", Key: "1"}, {Space: "a", Key: "empty", Value: []byte("e")}}})
	f.same("after a deletion", f.scan(bus.TopicState, "a/"), []string{"a/2/x=\x00\xff", "a/empty=e"})
	f.append(bus.Batch{State: []bus.Keyed{{Space: "a", Key: "3", Value: []byte("x")}, {Space: "a", Key: "3", Value: []byte("y")}}})
	f.same("the last one in a batch", f.scan(bus.TopicState, "a/3"), []string{"a/3=y"})
	f.same("space ab", f.scan(bus.TopicState, "ab/"), []string{"ab/1=other"})
}
