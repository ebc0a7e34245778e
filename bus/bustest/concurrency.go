package bustest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"millrace/bus"
	"millrace/bus/event"
)

func concurrencyCases() []testCase {
	return []testCase{
		{"concurrency/appenders", concurrentAppenders},
		{"concurrency/one batch id", concurrentRetries},
		{"concurrency/readers follow writers", concurrentReaders},
		{"concurrency/links to what is being written", concurrentLinks},
	}
}

// together runs n functions at once and ends the case on the first error.
func (f *fixture) together(n int, run func(i int) error) {
	f.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = run(i) })
	}
	wg.Wait()
	for _, err := range errs {
		f.ok(err)
	}
}

// concurrentAppenders: appends from many goroutines keep the order per key and
// leave no gap. Invariants 3 and 4.
func concurrentAppenders(f *fixture) {
	seed := rand.Uint64()
	f.Logf("seed %d", seed)
	topics := []bus.Topic{f.topic("a", 4), f.create(bus.Topic{Name: "b", Queues: 2, Durability: bus.Async})}
	const writers, each = 8, 40
	var appended atomic.Int64
	f.together(writers, func(w int) error {
		rng := rand.New(rand.NewPCG(seed, uint64(w)))
		for n := 0; n < each; {
			var b bus.Batch
			for _, t := range topics {
				wr := bus.Write{Topic: t.Name}
				for range rng.IntN(4) {
					wr.Events = append(wr.Events, ev(fmt.Sprintf("%d/%d", w, n), fmt.Sprintf("%d-%d", w, n%3), strings.Repeat("x", rng.IntN(300))))
					n++
				}
				b.Writes = append(b.Writes, wr)
			}
			at, err := f.c.Append(f.Context(), b)
			if err != nil {
				return err
			}
			if want := len(b.Writes[0].Events) + len(b.Writes[1].Events); len(at) != want {
				return fmt.Errorf("%d places for %d events", len(at), want)
			}
			appended.Add(int64(len(at)))
		}
		return nil
	})
	// Readers never pass what is synced: a sync append stands behind the async ones.
	f.put("a", ev("9/9999", "last", ""))
	appended.Add(1)
	var found int64
	for _, t := range topics {
		last := map[string]int{}
		for _, recs := range f.all(t) {
			for _, r := range recs {
				found++
				var w, n int
				_, err := fmt.Sscanf(r.ID, "%d/%d", &w, &n)
				f.ok(err)
				if prev, ok := last[r.Key]; ok && prev >= n {
					f.Fatalf("topic %s key %s: %d after %d", t.Name, r.Key, n, prev)
				}
				last[r.Key] = n
			}
		}
	}
	f.same("events", found, appended.Load())
}

func concurrentRetries(f *fixture) {
	f.topic("a", 3)
	b := bus.Batch{ID: "once", Writes: []bus.Write{{Topic: "a", Events: []event.Event{ev("1", "k", ""), ev("2", "", "")}}}}
	var mu sync.Mutex
	var answers [][]bus.Appended
	f.together(8, func(int) error {
		at, err := f.c.Append(f.Context(), b)
		mu.Lock()
		defer mu.Unlock()
		answers = append(answers, at)
		return err
	})
	for _, at := range answers {
		f.same("answer", at, answers[0])
	}
	var n int64
	for _, q := range f.bounds("a") {
		n += q.Next
	}
	f.same("stored", n, int64(2))
}

func concurrentReaders(f *fixture) {
	f.topic("a", 2)
	const batches = 50
	read := func() error {
		next := [2]int64{}
		for next[0]+next[1] < 3*batches {
			recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "a", Next: next[0]}, {Topic: "a", Queue: 1, Next: next[1]}}, bus.Limit{Records: 7, Wait: patience})
			if err != nil {
				return err
			}
			if len(recs) == 0 {
				return fmt.Errorf("nothing more after %v", next)
			}
			for _, r := range recs {
				if r.Offset != next[r.Queue] {
					return fmt.Errorf("queue %d: offset %d, want %d", r.Queue, r.Offset, next[r.Queue])
				}
				next[r.Queue]++
			}
		}
		return nil
	}
	f.together(4, func(i int) error {
		if i > 0 {
			return read()
		}
		for n := range batches {
			if _, err := f.c.Append(f.Context(), bus.Batch{Writes: []bus.Write{{Topic: "a", Events: events(fmt.Sprint(n, "-"), 3)}}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// concurrentLinks: what an append has answered can be linked to at once.
func concurrentLinks(f *fixture) {
	orders := f.topic("orders", 2)
	f.topic("target", 1)
	const writers, each = 4, 15
	f.together(writers, func(w int) error {
		for n := range each {
			id := fmt.Sprintf("%d/%d", w, n)
			at, err := f.c.Append(f.Context(), bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: []event.Event{ev(id, id, "")}}}})
			if err != nil {
				return err
			}
			if _, err = f.c.Append(f.Context(), bus.Batch{Writes: []bus.Write{{Topic: "target", Links: []bus.Link{{To: ref(orders, at[0]), Key: id}}}}}); err != nil {
				return err
			}
		}
		return nil
	})
	got := ids(f.queue("target", 0))
	slices.Sort(got)
	var want []string
	for w := range writers {
		for n := range each {
			want = append(want, fmt.Sprintf("%d/%d", w, n))
		}
	}
	slices.Sort(want)
	f.same("linked", got, want)
}
