package bustest

import (
	"fmt"

	"millrace/bus"
	"millrace/bus/event"
)

func linkCases() []testCase {
	return []testCase{
		{"links/resolve", linkResolve},
		{"links/overlay and attempt", linkOverlay},
		{"links/of a link", linkOfLink},
		{"links/key chooses the queue", linkKey},
		{"links/into a compacted topic", linkCompacted},
		{"links/events before links", linkOrder},
		{"links/to nothing", linkNothing},
		{"links/outlive retention", linkRetention},
	}
}

// ref is the place an event of topic t was stored at.
func ref(t bus.Topic, a bus.Appended) event.Ref {
	return event.Ref{Topic: t.ID, Queue: a.Queue, Offset: a.Offset}
}

func (f *fixture) link(topic string, links ...bus.Link) []bus.Appended {
	f.Helper()
	return f.append(bus.Batch{Writes: []bus.Write{{Topic: topic, Links: links}}})
}

func linkResolve(f *fixture) {
	orders := f.topic("orders", 1)
	f.topic("target", 1)
	at := f.put("orders", rich(), tombstone("gone", "k"), ev("x", "", "x"))
	links := make([]bus.Link, len(at))
	for i := range at {
		links[i].To = ref(orders, at[i])
	}
	placed := f.link("target", links[2], links[0], links[1])
	f.same("places", placed, []bus.Appended{{Topic: "target"}, {Topic: "target", Offset: 1}, {Topic: "target", Offset: 2}})
	originals := f.queue("orders", 0)
	for i, r := range f.queue("target", 0) {
		want := originals[[]int{2, 0, 1}[i]]
		f.same("event", r.Event, want.Event)
		f.same("tombstone", r.Tombstone(), want.Tombstone())
		f.same("origin", r.Origin, want.Origin)
		f.same("place", []any{r.Topic, r.Offset, r.Attempt}, []any{"target", int64(i), 0})
	}
}

func linkOverlay(f *fixture) {
	orders := f.topic("orders", 1)
	f.topic("target", 1)
	e := ev("x", "", "x")
	e.Ext = []event.Attr{{Name: "keep", Value: "1", Kind: event.Int}, {Name: "swap", Value: "old"}}
	at := f.put("orders", e)[0]
	f.link("target", bus.Link{To: ref(orders, at), Attempt: 7, Overlay: []event.Attr{
		{Name: "swap", Value: "new"}, {Name: event.ExtReason, Value: "because"}, {Name: event.ExtHops, Value: "2", Kind: event.Int},
	}})
	r := f.queue("target", 0)[0]
	f.same("attempt", r.Attempt, 7)
	got := map[string]event.Attr{}
	for _, a := range r.Ext {
		if _, dup := got[a.Name]; dup {
			f.Fatalf("extension %s stands twice: %v", a.Name, r.Ext)
		}
		got[a.Name] = a
	}
	f.same("extensions", got, map[string]event.Attr{
		"keep": {Name: "keep", Value: "1", Kind: event.Int}, "swap": {Name: "swap", Value: "new"},
		event.ExtReason: {Name: event.ExtReason, Value: "because"}, event.ExtHops: {Name: event.ExtHops, Value: "2", Kind: event.Int},
	})
	f.same("the original", f.queue("orders", 0)[0].Event, e)
}

func linkOfLink(f *fixture) {
	orders := f.topic("orders", 1)
	f.topic("first", 1)
	f.topic("second", 1)
	at := f.put("orders", rich())[0]
	f.link("first", bus.Link{To: ref(orders, at), Attempt: 1, Overlay: []event.Attr{{Name: event.ExtReason, Value: "1"}}})
	once := f.queue("first", 0)[0]
	f.same("origin", once.Origin, ref(orders, at))
	f.link("second", bus.Link{To: once.Origin, Attempt: 2})
	twice := f.queue("second", 0)[0]
	f.same("origin of a link made from a link", twice.Origin, ref(orders, at))
	f.same("attempt", twice.Attempt, 2)
	f.same("event", twice.Event, rich())
}

func linkKey(f *fixture) {
	orders := f.topic("orders", 1)
	f.topic("target", 5)
	at := f.put("orders", ev("x", "", "x"))[0]
	for i := range 10 {
		key := fmt.Sprintf("key-%d", i)
		linked := f.link("target", bus.Link{To: ref(orders, at), Key: key})[0]
		f.same("queue of "+key, linked.Queue, f.put("target", ev("e", key, ""))[0].Queue)
	}
}

func linkCompacted(f *fixture) {
	orders := f.topic("orders", 1)
	f.create(bus.Topic{Name: "latest", Type: bus.Compacted})
	at := f.put("orders", ev("a", "k1", "1"), ev("b", "k2", "2"), ev("c", "k1", "3"))
	for i, k := range []string{"k1", "k2", "k1"} {
		f.link("latest", bus.Link{To: ref(orders, at[i]), Key: k})
	}
	f.same("latest", f.scan("latest", ""), []string{"k1=3", "k2=2"})
	f.put("latest", tombstone("t", "k1"))
	f.same("without k1", f.scan("latest", ""), []string{"k2=2"})
	f.link("latest", bus.Link{To: ref(orders, at[0]), Key: "other"})
	f.same("by the link's key, whatever the event's", f.scan("latest", "o"), []string{"other=1"})
	_, err := f.c.Append(f.Context(), bus.Batch{Writes: []bus.Write{{Topic: "latest", Links: []bus.Link{{To: ref(orders, at[0])}}}}})
	f.refused(err, bus.ErrInvalid, "latest", "key")
}

func linkOrder(f *fixture) {
	orders := f.topic("orders", 1)
	f.topic("target", 1)
	at := f.put("orders", events("o", 2)...)
	placed := f.append(bus.Batch{Writes: []bus.Write{{
		Topic: "target", Events: events("e", 2),
		Links: []bus.Link{{To: ref(orders, at[1])}, {To: ref(orders, at[0])}},
	}}})
	f.same("places", len(placed), 4)
	got := make([]string, 4)
	for _, r := range f.queue("target", 0) {
		for i, a := range placed {
			if a.Offset == r.Offset {
				got[i] = r.ID
			}
		}
	}
	f.same("in the batch's order", got, []string{"e0", "e1", "o1", "o0"})
}

func linkNothing(f *fixture) {
	orders := f.topic("orders", 1)
	f.topic("target", 1)
	f.put("orders", events("e", 1)...)
	for name, to := range map[string]event.Ref{
		"4711":    {Topic: orders.ID, Offset: 4711},
		"1234567": {Topic: 1234567},
		"33":      {Topic: orders.ID, Queue: 33},
	} {
		_, err := f.c.Append(f.Context(), bus.Batch{Writes: []bus.Write{{Topic: "target", Events: events("e", 1), Links: []bus.Link{{To: to}}}}})
		if err == nil {
			f.Fatalf("a link to %+v was taken", to)
		}
		f.refused(err, bus.ErrInvalid, name)
	}
	f.same("nothing stored", f.bound("target", 0), bus.Bound{})
}

// linkRetention: what a live link refers to stays readable after retention has
// passed it. Invariant 8.
func linkRetention(f *fixture) {
	orders := f.topic("orders", 1)
	f.topic("target", 1)
	at := f.put("orders", ev("x", "", "precious"))[0]
	f.link("target", bus.Link{To: ref(orders, at)})
	f.create(bus.Topic{Name: "orders", Retention: bus.Retention{Bytes: 1}})
	f.eventually("the original is past retention", func() bool {
		f.put("orders", events("more", 1)...)
		return f.bound("orders", 0).First > at.Offset
	})
	f.same("by the link", string(f.queue("target", 0)[0].Data), "precious")
}
