package bustest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/bus"
)

func groupCases() []testCase {
	return []testCase{
		{"groups/one member", groupOne},
		{"groups/shared", groupShared},
		{"groups/leave", groupLeave},
		{"groups/lease ends", groupLease},
		{"groups/slots are the union", groupUnion},
		{"groups/many come and go", groupMany},
		{"groups/list", groupList},
		{"groups/ended context", groupEnded},
	}
}

// worker is a member that works as the runtime does: it starts what it is
// given, stops what it is not, and calls Slots again.
type worker struct {
	m    bus.Member
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	owns map[string]bus.Slot
	err  error
}

func (f *fixture) worker(group string, slots ...string) *worker {
	f.Helper()
	m, err := f.c.Join(f.Context(), group, slots)
	f.ok(err)
	ctx, stop := context.WithCancel(f.Context())
	w := &worker{m: m, stop: stop, done: make(chan struct{}), owns: map[string]bus.Slot{}}
	go func() {
		defer close(w.done)
		for {
			got, err := m.Slots(ctx)
			w.mu.Lock()
			if err != nil {
				w.err = err
				w.mu.Unlock()
				return
			}
			clear(w.owns)
			for _, sl := range got {
				w.owns[sl.Name] = sl
			}
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *worker) slots() map[string]bus.Slot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.owns)
}

func (w *worker) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// shared waits until the workers together own the slots, evenly.
func (f *fixture) shared(slots []string, workers ...*worker) {
	f.Helper()
	f.eventually("slots are shared evenly", func() bool {
		var all []string
		least, most := len(slots), 0
		for _, w := range workers {
			f.ok(w.failed())
			own := w.slots()
			all = slices.AppendSeq(all, maps.Keys(own))
			least, most = min(least, len(own)), max(most, len(own))
		}
		slices.Sort(all)
		return slices.Equal(all, slots) && most-least <= 1
	})
}

func groupOne(f *fixture) {
	f.topic("orders", 3)
	slots := []string{"orders/0", "orders/1", "orders/2"}
	m, err := f.c.Join(f.Context(), "g", slots)
	f.ok(err)
	f.await("g", m, 3)
	before := time.Now()
	got, err := m.Slots(f.Context())
	f.ok(err)
	var names []string
	for _, sl := range got {
		names = append(names, sl.Name)
		if sl.Epoch == 0 {
			f.Fatalf("slot %s: epoch 0", sl.Name)
		}
		if !sl.Until.After(before) || sl.Until.After(time.Now().Add(f.h.Lease)) {
			f.Fatalf("slot %s: until %s, the lease is %s", sl.Name, time.Until(sl.Until), f.h.Lease)
		}
	}
	f.same("slots", names, slots)
	if d := time.Since(before); d > f.h.Lease {
		f.Fatalf("waited %s for a change, the lease is %s", d, f.h.Lease)
	}
	f.ok(m.Leave(f.Context()))
	if _, err := m.Slots(f.Context()); !errors.Is(err, bus.ErrNoMember) {
		f.Fatalf("after leaving: %v, want ErrNoMember", err)
	}
}

func groupShared(f *fixture) {
	slots := []string{"a", "b", "c", "d"}
	first := f.worker("g", slots...)
	f.shared(slots, first)
	before := first.slots()
	second := f.worker("g", slots...)
	f.shared(slots, first, second)
	for name, sl := range second.slots() {
		if sl.Epoch <= before[name].Epoch {
			f.Fatalf("slot %s moved under epoch %d, was %d", name, sl.Epoch, before[name].Epoch)
		}
	}
	for name, sl := range first.slots() {
		if sl.Epoch != before[name].Epoch {
			f.Fatalf("slot %s stayed but its epoch went from %d to %d", name, before[name].Epoch, sl.Epoch)
		}
	}
	other := f.worker("other", "a")
	f.shared([]string{"a"}, other)
	f.shared(slots, first, second)
}

func groupLeave(f *fixture) {
	slots := []string{"a", "b", "c"}
	first, second := f.worker("g", slots...), f.worker("g", slots...)
	f.shared(slots, first, second)
	first.stop()
	<-first.done
	start := time.Now()
	f.ok(first.m.Leave(f.Context()))
	f.shared(slots, second)
	if d := time.Since(start); d > f.h.Lease {
		f.Fatalf("slots that were given back took %s to move; the lease is %s", d, f.h.Lease)
	}
}

// groupLease: a member that falls silent loses its slots, not before its lease
// ends, and cannot do harm afterwards. Invariant 11.
func groupLease(f *fixture) {
	f.topic("orders", 2)
	slots := []string{"orders/0", "orders/1"}
	silent, owned := f.own("g", slots...)
	heard, err := silent.Slots(f.Context())
	f.ok(err)
	until := heard[0].Until
	second := f.worker("g", slots...)
	f.eventually("the silent one's slots move", func() bool {
		f.ok(second.failed())
		got := second.slots()
		if len(got) > 0 && time.Now().Before(until) {
			f.Fatalf("%d slots moved %s before the owner's until", len(got), time.Until(until))
		}
		return len(got) == 2
	})
	for name, sl := range second.slots() {
		if sl.Epoch <= owned[name].Epoch {
			f.Fatalf("slot %s: epoch %d after %d", name, sl.Epoch, owned[name].Epoch)
		}
		_, err := f.c.Append(f.Context(), bus.Batch{Saves: []bus.Checkpoint{{Owner: owned[name], Next: 1}}})
		f.refused(err, bus.ErrFenced, "g", name)
	}
	if _, err := silent.Slots(f.Context()); !errors.Is(err, bus.ErrNoMember) {
		f.Fatalf("the silent one: %v, want ErrNoMember", err)
	}
	again := f.worker("g", slots...)
	f.shared(slots, second, again)
}

func groupUnion(f *fixture) {
	first := f.worker("g", "a", "b")
	f.shared([]string{"a", "b"}, first)
	second := f.worker("g", "b", "c", "d")
	f.shared([]string{"a", "b", "c", "d"}, first, second)
}

// groupMany: while members come and go, no slot is held twice under one epoch
// and every slot is owned again at the end.
func groupMany(f *fixture) {
	slots := []string{"0", "1", "2", "3", "4", "5", "6"}
	var live []*worker
	holder := map[bus.Owner]*worker{}
	note := func() {
		for _, w := range live {
			for name, o := range owners("g", slices.Collect(maps.Values(w.slots()))) {
				if h := holder[o]; h != nil && h != w {
					f.Fatalf("slot %s epoch %d was given to two members", name, o.Epoch)
				}
				holder[o] = w
			}
		}
	}
	for i := range 6 {
		live = append(live, f.worker("g", slots...))
		note()
		if i%2 == 1 {
			f.shared(slots, live...)
			note()
			gone := live[0]
			live = live[1:]
			gone.stop()
			<-gone.done
			f.ok(gone.m.Leave(f.Context()))
		}
	}
	f.shared(slots, live...)
	note()
}

func groupList(f *fixture) {
	f.topic("orders", 2)
	f.put("orders", ev("1", "", ""), ev("2", "", ""))
	at := f.put("orders", ev("3", "", ""), ev("4", "", ""), ev("5", "", ""))[0].Queue
	m, own := f.own("g", "orders/0", "orders/1")
	f.save(own["orders/0"], 1)
	src, ownSrc := f.own("connect-src", "0")

	find := func(name string) bus.GroupInfo {
		groups, err := f.c.Groups(f.Context())
		f.ok(err)
		if !slices.IsSortedFunc(groups, func(a, b bus.GroupInfo) int { return strings.Compare(a.Name, b.Name) }) {
			f.Fatalf("not by name: %+v", groups)
		}
		for _, g := range groups {
			if g.Name == name {
				slices.SortFunc(g.Slots, func(a, b bus.SlotInfo) int { return strings.Compare(a.Slot, b.Slot) })
				return g
			}
		}
		f.Fatalf("group %s is not listed: %+v", name, groups)
		return bus.GroupInfo{}
	}
	g := find("g")
	f.same("slots", len(g.Slots), 2)
	owner := g.Slots[0].Owner
	if owner == "" {
		f.Fatal("no owner")
	}
	counts := [2]int64{2, 2} // each write has a queue of its own
	counts[at] = 3
	f.same("slots", g.Slots, []bus.SlotInfo{
		{Slot: "orders/0", Owner: owner, Epoch: own["orders/0"].Epoch, Topic: "orders", Bound: bus.Bound{Queue: 0, Next: counts[0]}, Checkpoint: 1},
		{Slot: "orders/1", Owner: owner, Epoch: own["orders/1"].Epoch, Topic: "orders", Bound: bus.Bound{Queue: 1, Next: counts[1]}, Checkpoint: -1},
	})
	s := find("connect-src").Slots
	f.same("a source's slot", []any{len(s), s[0].Slot, s[0].Topic, s[0].Epoch, s[0].Checkpoint}, []any{1, "0", "", ownSrc["0"].Epoch, int64(-1)})

	f.ok(m.Leave(f.Context()))
	f.ok(src.Leave(f.Context()))
	f.same("without members", []any{find("g").Slots[0].Owner, find("g").Slots[0].Checkpoint}, []any{"", int64(1)})
}

func groupEnded(f *fixture) {
	m, _ := f.own("g", "a")
	ctx, cancel := context.WithCancel(f.Context())
	cancel()
	if _, err := m.Slots(ctx); !errors.Is(err, context.Canceled) {
		f.Fatalf("%v, want context.Canceled", err)
	}
	f.await("g", m, 1)
}
