package bustest

import (
	"encoding/json"
	"fmt"
	"strconv"

	"millrace/bus"
	"millrace/bus/event"
)

func reopenCases() []testCase {
	return []testCase{
		{"reopen/events and topics", reopenEvents},
		{"reopen/queue of a key", reopenKeys},
		{"reopen/batch id", reopenBatchID},
		{"reopen/checkpoints, positions, state", reopenSaved},
		{"reopen/epochs", reopenEpochs},
		{"reopen/deleted topic", reopenDeleted},
		{"reopen/links", reopenLinks},
	}
}

func reopenEvents(f *fixture) {
	t := f.topic("orders", 2)
	f.create(bus.Topic{Name: "fast", Durability: bus.Async})
	for i := range 10 {
		f.put("orders", ev(strconv.Itoa(i), "", "x"))
	}
	f.put("fast", events("f", 3)...)
	before := f.all(t)
	f.reopen()
	after, err := f.c.Topic(f.Context(), "orders")
	f.ok(err)
	f.same("topic", after, t)
	f.same("events", f.all(t), before)
	f.same("an orderly end loses nothing async", len(f.queue("fast", 0)), 3)
	f.same("next", f.put("fast", events("g", 1)...)[0].Offset, int64(3))
}

func reopenKeys(f *fixture) {
	f.topic("orders", 7)
	var evs []event.Event
	for i := range 50 {
		evs = append(evs, ev(strconv.Itoa(i), fmt.Sprintf("key-%d", i), ""))
	}
	before := f.put("orders", evs...)
	f.reopen()
	for i, a := range f.put("orders", evs...) {
		f.same("queue of "+evs[i].Key, a.Queue, before[i].Queue)
	}
}

func reopenBatchID(f *fixture) {
	f.topic("orders", 3)
	b := bus.Batch{ID: "batch-1", Writes: []bus.Write{{Topic: "orders", Events: []event.Event{ev("a", "k1", ""), ev("b", "k2", ""), ev("c", "", "")}}}}
	first := f.append(b)
	f.reopen()
	f.same("again", f.append(b), first)
	f.reopen()
	f.same("and again", f.append(b), first)
}

func reopenSaved(f *fixture) {
	f.topic("orders", 1)
	_, own := f.own("g", "orders/0", "task")
	f.append(bus.Batch{
		Saves: []bus.Checkpoint{
			{Owner: own["orders/0"], Next: 42, Follows: "other"},
			{Owner: own["task"], Positions: map[string]json.RawMessage{"p1": json.RawMessage(`{"n":1}`), "p2": json.RawMessage(`2`)}},
		},
		State: []bus.Keyed{{Space: "s", Key: "k", Value: []byte("v")}},
	})
	before := f.checkpoint("g", "orders/0")
	f.same("next", before.Next, int64(42))
	f.reopen()
	f.same("checkpoint", f.checkpoint("g", "orders/0"), before)
	pos, err := f.c.Positions(f.Context(), "g")
	f.ok(err)
	f.same("positions", pos, map[string]json.RawMessage{"p1": json.RawMessage(`{"n":1}`), "p2": json.RawMessage(`2`)})
	f.same("state", f.scan(bus.TopicState, "s/"), []string{"s/k=v"})
}

func reopenEpochs(f *fixture) {
	f.topic("orders", 1)
	_, own := f.own("g", "orders/0")
	old := own["orders/0"]
	f.reopen()
	f.same("epoch", f.checkpoint("g", "orders/0").Epoch, old.Epoch)
	_, own = f.own("g", "orders/0")
	if now := own["orders/0"]; now.Epoch <= old.Epoch {
		f.Fatalf("epoch %d after %d", now.Epoch, old.Epoch)
	}
	_, err := f.c.Append(f.Context(), bus.Batch{Saves: []bus.Checkpoint{{Owner: old, Next: 1}}})
	f.refused(err, bus.ErrFenced, "g", "orders/0")
}

func reopenDeleted(f *fixture) {
	first := f.topic("orders", 1)
	f.put("orders", events("e", 1)...)
	f.ok(f.c.DeleteTopic(f.Context(), "orders", false))
	f.reopen()
	_, err := f.c.Topic(f.Context(), "orders")
	f.refused(err, bus.ErrNoTopic, "orders")
	if second := f.topic("orders", 1); second.ID == first.ID {
		f.Fatal("an id was used twice")
	}
	f.same("empty", f.bound("orders", 0), bus.Bound{})
}

func reopenLinks(f *fixture) {
	orders := f.topic("orders", 1)
	f.topic("target", 1)
	at := f.put("orders", rich())[0]
	f.append(bus.Batch{Writes: []bus.Write{{Topic: "target", Links: []bus.Link{{
		To: ref(orders, at), Key: rich().Key, Attempt: 3, Overlay: []event.Attr{{Name: event.ExtReason, Value: "why"}},
	}}}}})
	before := f.queue("target", 0)
	f.reopen()
	f.same("links", f.queue("target", 0), before)
	f.refused(f.c.DeleteTopic(f.Context(), "orders", false), bus.ErrInUse, "target")
}
