package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// worker is a member as it lives in its own process. It starts on a slot at
// once and stops one only just before its next heartbeat.
type worker struct {
	slots  map[string]Slot // what it works on
	answer []Slot
	silent bool // stalled: sends no heartbeat but may still be working
}

// world runs a State with workers, a slow store and a clock.
type world struct {
	t       *rapid.T
	s       *State
	now     time.Time
	workers map[string]*worker
	named   []string
	stored  []Grant           // durable, Granted not called yet
	highest map[string]uint64 // slot → highest epoch seen in force
	holder  map[string]string // slot@epoch → member it was ever given to
	next    int
}

const g = "g"

func (w *world) join() {
	id := fmt.Sprintf("m%02d", w.next)
	w.next++
	w.workers[id] = &worker{slots: map[string]Slot{}}
	w.s.Join(w.now, g, id, w.named)
}

// beat sends a heartbeat for one worker and lets it act on the answer.
func (w *world) beat(id string) {
	wk := w.workers[id]
	clear(wk.slots)
	for _, sl := range wk.answer {
		wk.slots[sl.Name] = sl
	}
	slots, ok := w.s.Heartbeat(w.now, g, id)
	if !ok {
		delete(w.workers, id)
		return
	}
	wk.answer = slots
	for _, sl := range slots {
		wk.slots[sl.Name] = sl
		key := fmt.Sprintf("%s@%d", sl.Name, sl.Epoch)
		if h := w.holder[key]; h != "" && h != id {
			w.t.Fatalf("%s was %s's and is now %s's under one epoch", key, h, id)
		}
		w.holder[key] = id
	}
	w.check()
}

// check holds what must be true at every moment. Invariant 11.
func (w *world) check() {
	working := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(w.workers)) {
		for name, sl := range w.workers[id].slots {
			if !w.now.Before(sl.Until) {
				continue // it has stopped by its own clock
			}
			if other := working[name]; other != "" {
				w.t.Fatalf("slot %s: %s and %s both hold it before their Until", name, other, id)
			}
			working[name] = id
		}
	}
	for _, sl := range w.s.Describe(g).Slots {
		if sl.Epoch < w.highest[sl.Name] {
			w.t.Fatalf("slot %s: epoch fell from %d to %d", sl.Name, w.highest[sl.Name], sl.Epoch)
		}
		w.highest[sl.Name] = sl.Epoch
		if id := working[sl.Name]; id != "" && sl.Owner != "" && sl.Owner != id {
			w.t.Fatalf("slot %s: granted to %s while %s holds it before its Until", sl.Name, sl.Owner, id)
		}
	}
}

func (w *world) live() []string {
	var ids []string
	for id, wk := range w.workers {
		if !wk.silent {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (w *world) store() {
	w.stored = append(w.stored, w.s.Grants()...)
}

func (w *world) grantAll() {
	for _, gr := range w.stored {
		before := w.s.Epoch(g, gr.Slot)
		if w.s.Granted(gr) && gr.Epoch <= before {
			w.t.Fatalf("%+v took force over epoch %d", gr, before)
		}
	}
	w.stored = nil
	w.check()
}

func TestProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, s: New(lease), now: t0, workers: map[string]*worker{}, highest: map[string]uint64{}, holder: map[string]string{}}
		for i := range rapid.IntRange(0, 9).Draw(t, "slots") {
			w.named = append(w.named, fmt.Sprintf("t/%d", i))
		}
		if rapid.Bool().Draw(t, "restored") {
			for _, n := range w.named {
				w.s.Restore(g, n, rapid.Uint64Range(0, 50).Draw(t, "epoch"))
			}
		}
		pick := func() string { return rapid.SampledFrom(w.live()).Draw(t, "member") }
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				if len(w.workers) < 6 {
					w.join()
				}
			},
			"beat": func(t *rapid.T) {
				if len(w.live()) > 0 {
					w.beat(pick())
				}
			},
			"leave": func(t *rapid.T) {
				if len(w.live()) > 0 && rapid.IntRange(0, 3).Draw(t, "rarely") == 0 {
					id := pick()
					delete(w.workers, id)
					w.s.Leave(w.now, g, id)
				}
			},
			"stall": func(t *rapid.T) {
				if len(w.live()) > 0 && rapid.IntRange(0, 3).Draw(t, "rarely") == 0 {
					w.workers[pick()].silent = true
				}
			},
			"wake": func(t *rapid.T) {
				for _, id := range slices.Sorted(maps.Keys(w.workers)) {
					if w.workers[id].silent {
						w.workers[id].silent = false
						w.beat(id)
						return
					}
				}
			},
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			},
			"tick": func(t *rapid.T) { w.s.Tick(w.now) },
			"round": func(t *rapid.T) {
				w.s.Tick(w.now)
				w.round()
			},
			"store": func(t *rapid.T) { w.store() },
			"grant": func(t *rapid.T) { w.grantAll() },
			"bump": func(t *rapid.T) {
				if len(w.named) > 0 {
					w.stored = append(w.stored, w.s.Bump(g, rapid.SampledFrom(w.named).Draw(t, "slot")))
				}
			},
			"name": func(t *rapid.T) {
				if len(w.live()) > 0 {
					w.named = append(w.named, fmt.Sprintf("t/%d", len(w.named)))
					w.s.Join(w.now, g, pick(), w.named)
				}
			},
			"": func(t *rapid.T) { w.check() },
		})
		w.settle()
	})
}

// round stores and grants all that is decided; then every live worker calls.
func (w *world) round() {
	w.store()
	w.grantAll()
	for _, id := range w.live() {
		w.beat(id)
	}
}

// settle lets the world come to rest: within five rounds every slot has one
// owner, shares are even, and nothing moves any more.
func (w *world) settle() {
	for range 2 { // the leases of the silent end
		w.now = w.now.Add(lease / 2)
		for _, id := range w.live() {
			w.beat(id)
		}
	}
	w.s.Tick(w.now)
	w.round() // the silent may still be working when others get their slots
	for id, wk := range w.workers {
		if wk.silent {
			delete(w.workers, id)
		}
	}
	if len(w.live()) == 0 {
		return
	}
	for range 5 {
		w.round()
	}
	w.even()
	for _, id := range w.live() { // members agree on the slots
		w.s.Join(w.now, g, id, w.named)
	}
	for range 5 {
		w.round()
	}
	w.even()
	before := w.s.Describe(g)
	w.s.Join(w.now, g, w.live()[0], w.named)
	w.round()
	if after := w.s.Describe(g); !slices.Equal(before.Slots, after.Slots) {
		w.t.Fatalf("slots move without reason:\n%+v\n%+v", before, after)
	}

	// One more member: at most its fair share moves.
	w.join()
	for range 5 {
		w.round()
	}
	w.even()
	if n, share := moved(before, w.s.Describe(g)), len(w.owners())/len(w.live()); n > share {
		w.t.Fatalf("%d slots moved for a new member, %d suffice", n, share)
	}

	// One less: only its own slots move.
	before = w.s.Describe(g)
	id := w.live()[0]
	own := len(w.workers[id].slots)
	delete(w.workers, id)
	w.s.Leave(w.now, g, id)
	for range 5 {
		w.round()
	}
	if len(w.live()) > 0 {
		w.even()
		if n := moved(before, w.s.Describe(g)); n != own {
			w.t.Fatalf("%d slots moved when a member with %d left", n, own)
		}
	}
}

func (w *world) owners() map[string]string {
	out := map[string]string{}
	for _, id := range w.live() {
		for name := range w.workers[id].slots {
			out[name] = id
		}
	}
	return out
}

// even checks that all slots any member names are owned and shared evenly.
func (w *world) even() {
	want := map[string]struct{}{}
	for _, m := range w.s.groups[g].members {
		maps.Copy(want, m.names)
	}
	if got := len(w.owners()); got != len(want) {
		w.t.Fatalf("%d of %d slots have an owner: %+v", got, len(want), w.s.Describe(g))
	}
	least, most := len(want), 0
	for _, id := range w.live() {
		least, most = min(least, len(w.workers[id].slots)), max(most, len(w.workers[id].slots))
	}
	if most-least > 1 {
		w.t.Fatalf("shares from %d to %d: %+v", least, most, w.s.Describe(g))
	}
}

func moved(a, b Info) (n int) {
	owner := map[string]string{}
	for _, sl := range a.Slots {
		owner[sl.Name] = sl.Owner
	}
	for _, sl := range b.Slots {
		if sl.Owner != owner[sl.Name] && owner[sl.Name] != "" {
			n++
		}
	}
	return n
}
