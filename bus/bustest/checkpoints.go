package bustest

import (
	"encoding/json"
	"maps"
	"slices"

	"millrace/bus"
	"millrace/bus/event"
)

func checkpointCases() []testCase {
	return []testCase{
		{"checkpoints/none", checkpointNone},
		{"checkpoints/saved with events", checkpointSaved},
		{"checkpoints/only the owner", checkpointFenced},
		{"checkpoints/retry after the owner changed", checkpointRetry},
		{"checkpoints/follow", checkpointFollow},
		{"checkpoints/positions", checkpointPositions},
		{"checkpoints/trim consumed topics", checkpointTrim},
		{"checkpoints/forget", checkpointForget},
	}
}

func resetCases() []testCase {
	return []testCase{
		{"reset/of a running group", resetRunning},
		{"reset/of a group at rest", resetIdle},
		{"reset/refused", resetRefused},
	}
}

func checkpointNone(f *fixture) {
	f.topic("orders", 1)
	f.same("unknown", f.checkpoint("g", "orders/0"), bus.Saved{Next: -1})
	_, own := f.own("g", "orders/0")
	f.same("known but not saved", f.checkpoint("g", "orders/0"), bus.Saved{Next: -1, Epoch: own["orders/0"].Epoch})
	pos, err := f.c.Positions(f.Context(), "g")
	f.ok(err)
	f.same("positions", len(pos), 0)
}

func checkpointSaved(f *fixture) {
	f.topic("orders", 2)
	f.topic("out", 1)
	_, own := f.own("g", "orders/0", "orders/1")
	f.append(bus.Batch{
		Writes: []bus.Write{{Topic: "out", Events: events("e", 2)}},
		Saves:  []bus.Checkpoint{{Owner: own["orders/0"], Next: 5}, {Owner: own["orders/1"], Next: 0}},
	})
	f.same("slot 0", f.checkpoint("g", "orders/0"), bus.Saved{Next: 5, Epoch: own["orders/0"].Epoch})
	f.same("slot 1", f.checkpoint("g", "orders/1"), bus.Saved{Next: 0, Epoch: own["orders/1"].Epoch})
	f.same("events", len(f.queue("out", 0)), 2)
	f.save(own["orders/0"], 9)
	f.same("later", f.checkpoint("g", "orders/0").Next, int64(9))
	f.same("of another group", f.checkpoint("h", "orders/0").Next, int64(-1))
}

// checkpointFenced: a batch in the name of a stale owner is refused whole.
// Invariant 11.
func checkpointFenced(f *fixture) {
	f.topic("orders", 1)
	f.topic("out", 1)
	m, own := f.own("g", "orders/0")
	old := own["orders/0"]
	f.save(old, 3)
	f.ok(m.Leave(f.Context()))
	_, own = f.own("g", "orders/0")
	now := own["orders/0"]
	if now.Epoch <= old.Epoch {
		f.Fatalf("epoch %d after %d", now.Epoch, old.Epoch)
	}
	never := now
	never.Epoch += 7
	for _, stale := range []bus.Owner{old, never} {
		for name, b := range map[string]bus.Batch{
			"save": {Saves: []bus.Checkpoint{{Owner: stale, Next: 8}}},
			"as":   {As: []bus.Owner{stale}},
			"both": {As: []bus.Owner{stale}, Saves: []bus.Checkpoint{{Owner: now, Next: 8}}},
		} {
			b.ID = name
			b.Writes = []bus.Write{{Topic: "out", Events: events("e", 1)}}
			b.State = []bus.Keyed{{Space: "s", Key: "k", Value: []byte("v")}}
			_, err := f.c.Append(f.Context(), b)
			f.refused(err, bus.ErrFenced, "g", "orders/0")
		}
	}
	f.same("no event", f.bound("out", 0), bus.Bound{})
	f.same("no state", f.scan(bus.TopicState, "s/"), []string{})
	f.same("checkpoint", f.checkpoint("g", "orders/0"), bus.Saved{Next: 3, Epoch: now.Epoch})
	f.append(bus.Batch{As: []bus.Owner{now}, Writes: []bus.Write{{Topic: "out", Events: events("e", 1)}}})
	f.same("as the owner", len(f.queue("out", 0)), 1)
}

func checkpointRetry(f *fixture) {
	f.topic("orders", 1)
	f.topic("out", 1)
	m, own := f.own("g", "orders/0")
	b := bus.Batch{
		ID: "b", Writes: []bus.Write{{Topic: "out", Events: events("e", 1)}},
		Saves: []bus.Checkpoint{{Owner: own["orders/0"], Next: 1}},
	}
	first := f.append(b)
	f.ok(m.Leave(f.Context()))
	_, own = f.own("g", "orders/0")
	f.save(own["orders/0"], 5)
	f.same("the answer of the first try", f.append(b), first)
	f.same("the checkpoint stays", f.checkpoint("g", "orders/0").Next, int64(5))
	f.same("stored once", len(f.queue("out", 0)), 1)
}

func checkpointFollow(f *fixture) {
	f.topic("orders", 1)
	_, lead := f.own("router", "orders/0")
	_, own := f.own("rule", "orders/0")
	f.append(bus.Batch{Saves: []bus.Checkpoint{{Owner: own["orders/0"], Next: 3, Follows: "router"}}})
	f.same("nothing to follow yet", f.checkpoint("rule", "orders/0"), bus.Saved{Next: 3, Follows: "router", Epoch: own["orders/0"].Epoch})
	for _, step := range []struct{ lead, want int64 }{{1, 3}, {3, 3}, {7, 7}, {12, 12}} {
		f.save(lead["orders/0"], step.lead)
		f.same("following", f.checkpoint("rule", "orders/0").Next, step.want)
	}
	f.save(own["orders/0"], 4) // no longer follows
	f.same("on its own", f.checkpoint("rule", "orders/0"), bus.Saved{Next: 4, Epoch: own["orders/0"].Epoch})
}

func checkpointPositions(f *fixture) {
	f.topic("orders", 1)
	_, own := f.own("connect-src", "0", "1")
	save := func(slot string, p map[string]json.RawMessage) {
		f.Helper()
		f.append(bus.Batch{
			Writes: []bus.Write{{Topic: "orders", Events: events("e", 1)}},
			Saves:  []bus.Checkpoint{{Owner: own[slot], Positions: p}},
		})
	}
	check := func(want map[string]json.RawMessage) {
		f.Helper()
		got, err := f.c.Positions(f.Context(), "connect-src")
		f.ok(err)
		f.same("positions", got, want)
	}
	a, b, odd := json.RawMessage(`{"pos":1}`), json.RawMessage(`[2, "x"]`), `{"path":"/a b/ü","n":1}`
	save("0", map[string]json.RawMessage{"a": a, odd: b})
	check(map[string]json.RawMessage{"a": a, odd: b})
	save("1", map[string]json.RawMessage{"c": a})
	save("0", map[string]json.RawMessage{"a": b})
	check(map[string]json.RawMessage{"a": b, odd: b, "c": a})
	save("0", map[string]json.RawMessage{"a": nil, "never": nil})
	check(map[string]json.RawMessage{odd: b, "c": a})

	_, err := f.c.Append(f.Context(), bus.Batch{Saves: []bus.Checkpoint{{Owner: own["0"], Positions: map[string]json.RawMessage{"a": json.RawMessage(`{`)}}}})
	f.refused(err, bus.ErrInvalid, "connect-src", "a")
	other, err := f.c.Positions(f.Context(), "connect-sr")
	f.ok(err)
	f.same("of another group", len(other), 0)
}

// checkpointTrim: a consumed topic keeps a record until its group has passed it.
func checkpointTrim(f *fixture) {
	f.create(bus.Topic{Name: "delivery", Queues: 2, Consumed: true})
	var evs []event.Event
	for i := range 10 {
		evs = append(evs, ev(string(rune('a'+i)), "one-key", ""))
	}
	q := f.put("delivery", evs...)[0].Queue
	slot := map[int]string{0: "delivery/0", 1: "delivery/1"}[q]
	_, own := f.own("g", "delivery/0", "delivery/1")
	f.same("all there", f.bound("delivery", q), bus.Bound{Queue: q, First: 0, Next: 10})
	f.save(own[slot], 6)
	f.eventually("six have served", func() bool { return f.bound("delivery", q).First == 6 })
	recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "delivery", Queue: q}}, bus.Limit{})
	f.ok(err)
	f.same("a cursor before the first starts there", ids(recs), []string{"g", "h", "i", "j"})
	f.save(own[slot], 10)
	f.eventually("all have served", func() bool { return f.bound("delivery", q) == bus.Bound{Queue: q, First: 10, Next: 10} })
	f.same("the next offset", f.put("delivery", ev("z", "one-key", ""))[0].Offset, int64(10))
}

func checkpointForget(f *fixture) {
	f.topic("orders", 1)
	m, own := f.own("g", "orders/0", "task")
	f.append(bus.Batch{Saves: []bus.Checkpoint{
		{Owner: own["orders/0"], Next: 5}, {Owner: own["task"], Positions: map[string]json.RawMessage{"p": json.RawMessage("1")}},
	}})
	_, other := f.own("gg", "orders/0")
	f.save(other["orders/0"], 3)
	f.ok(m.Leave(f.Context()))
	f.ok(f.c.ForgetGroup(f.Context(), "g"))
	f.same("checkpoint", f.checkpoint("g", "orders/0").Next, int64(-1))
	pos, err := f.c.Positions(f.Context(), "g")
	f.ok(err)
	f.same("positions", len(pos), 0)
	groups, err := f.c.Groups(f.Context())
	f.ok(err)
	if slices.ContainsFunc(groups, func(g bus.GroupInfo) bool { return g.Name == "g" }) {
		f.Fatal("still listed")
	}
	f.same("another group's", f.checkpoint("gg", "orders/0").Next, int64(3))
	_, err = f.c.Append(f.Context(), bus.Batch{Saves: []bus.Checkpoint{{Owner: own["orders/0"], Next: 9}}})
	f.refused(err, bus.ErrFenced, "g")
	f.ok(f.c.ForgetGroup(f.Context(), "never"))
}

func resetRunning(f *fixture) {
	f.topic("orders", 2)
	f.put("orders", events("e", 8)...)
	m, own := f.own("g", "orders/0", "orders/1")
	f.save(own["orders/0"], 7)
	f.save(own["orders/1"], 7)
	f.ok(f.c.ResetGroup(f.Context(), "g", []bus.Cursor{{Topic: "orders", Queue: 0, Next: 2}}))
	saved := f.checkpoint("g", "orders/0")
	f.same("moved", saved.Next, int64(2))
	if saved.Epoch <= own["orders/0"].Epoch {
		f.Fatalf("epoch %d after %d", saved.Epoch, own["orders/0"].Epoch)
	}
	f.same("the other slot", f.checkpoint("g", "orders/1").Next, int64(7))
	_, err := f.c.Append(f.Context(), bus.Batch{Saves: []bus.Checkpoint{{Owner: own["orders/0"], Next: 8}}})
	f.refused(err, bus.ErrFenced, "g", "orders/0")

	var now map[string]bus.Owner
	f.eventually("the owner hears of the new epoch", func() bool {
		slots, err := m.Slots(f.Context())
		f.ok(err)
		now = owners("g", slots)
		return now["orders/0"].Epoch == saved.Epoch
	})
	f.same("slots", slices.Sorted(maps.Keys(now)), []string{"orders/0", "orders/1"})
	f.save(now["orders/0"], 3)
	f.same("goes on", f.checkpoint("g", "orders/0").Next, int64(3))
}

func resetIdle(f *fixture) {
	f.topic("orders", 1)
	f.put("orders", events("e", 8)...)
	f.ok(f.c.ResetGroup(f.Context(), "fresh", []bus.Cursor{{Topic: "orders", Next: 4}}))
	f.same("a group never seen", f.checkpoint("fresh", "orders/0").Next, int64(4))
	m, own := f.own("fresh", "orders/0")
	f.same("kept when somebody comes", f.checkpoint("fresh", "orders/0").Next, int64(4))
	f.ok(m.Leave(f.Context()))
	f.ok(f.c.ResetGroup(f.Context(), "fresh", []bus.Cursor{{Topic: "orders", Next: 0}}))
	f.same("back", f.checkpoint("fresh", "orders/0").Next, int64(0))
	_, err := f.c.Append(f.Context(), bus.Batch{Saves: []bus.Checkpoint{{Owner: own["orders/0"], Next: 8}}})
	f.refused(err, bus.ErrFenced, "fresh")
}

func resetRefused(f *fixture) {
	f.topic("orders", 1)
	_, own := f.own("g", "orders/0")
	f.save(own["orders/0"], 0)
	f.refused(f.c.ResetGroup(f.Context(), "g", []bus.Cursor{{Topic: "orders", Next: 0}, {Topic: "nix"}}), bus.ErrNoTopic, "nix")
	f.refused(f.c.ResetGroup(f.Context(), "g", []bus.Cursor{{Topic: "orders", Queue: 5}}), bus.ErrInvalid, "queue")
	f.same("unchanged", f.checkpoint("g", "orders/0"), bus.Saved{Next: 0, Epoch: own["orders/0"].Epoch})
}
