package bustest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/bus"
)

func topicCases() []testCase {
	return []testCase{
		{"topics/defaults", topicDefaults},
		{"topics/all settings", topicSettings},
		{"topics/create again", topicAgain},
		{"topics/conflict", topicConflict},
		{"topics/names", topicNames},
		{"topics/bad settings", topicBadSettings},
		{"topics/types to come", topicTypesToCome},
		{"topics/list", topicList},
		{"topics/missing", topicMissing},
		{"topics/delete", topicDelete},
		{"topics/delete while linked", topicDeleteLinked},
		{"topics/delete while read", topicDeleteRead},
		{"topics/made anew", topicAnew},
		{"topics/retention by age", topicRetentionAge},
		{"topics/retention by bytes", topicRetentionBytes},
	}
}

func topicDefaults(f *fixture) {
	before := time.Now().Add(-time.Minute)
	got := f.create(bus.Topic{Name: "orders"})
	if got.ID == 0 || got.Created.Before(before) || got.Created.After(time.Now().Add(time.Minute)) {
		f.Fatalf("id %d, created %s", got.ID, got.Created)
	}
	want := bus.Topic{Name: "orders", ID: got.ID, Queues: 1, Type: bus.Normal, Durability: bus.Sync, Created: got.Created}
	f.same("created", got, want)
	read, err := f.c.Topic(f.Context(), "orders")
	f.ok(err)
	f.same("read", read, want)
	f.same("bounds", f.bounds("orders"), []bus.Bound{{Queue: 0}})
}

func topicSettings(f *fixture) {
	in := bus.Topic{
		Name: "Orders.eu_west-1", Queues: 7, Type: bus.Normal, Durability: bus.Async,
		Retention: bus.Retention{Age: bus.Duration(time.Hour), Bytes: 1 << 40},
	}
	got := f.create(in)
	in.ID, in.Created = got.ID, got.Created
	f.same("created", got, in)
	if n := len(f.bounds(in.Name)); n != 7 {
		f.Fatalf("%d queues, want 7", n)
	}
	compacted := f.create(bus.Topic{Name: "latest", Type: bus.Compacted, Queues: 2})
	f.same("compacted", compacted.Type, bus.Compacted)
	consumed := f.create(bus.Topic{Name: "queue", Consumed: true})
	f.same("consumed", consumed.Consumed, true)
	f.create(bus.Topic{Name: "many", Queues: 1024})
}

func topicAgain(f *fixture) {
	first := f.topic("orders", 3)
	f.put("orders", events("e", 3)...)
	f.same("the same one", f.topic("orders", 3), first)
	f.same("zero fields fit", f.create(bus.Topic{Name: "orders"}), first)
	var n int64
	for _, b := range f.bounds("orders") {
		n += b.Next
	}
	f.same("its events", n, int64(3))

	changed := f.create(bus.Topic{Name: "orders", Durability: bus.Async, Retention: bus.Retention{Age: bus.Duration(time.Hour)}})
	want := first
	want.Durability, want.Retention.Age = bus.Async, bus.Duration(time.Hour)
	f.same("changed", changed, want)
	read, err := f.c.Topic(f.Context(), "orders")
	f.ok(err)
	f.same("read", read, want)
}

func topicConflict(f *fixture) {
	first := f.topic("orders", 3)
	_, err := f.c.CreateTopic(f.Context(), bus.Topic{Name: "orders", Queues: 4})
	f.refused(err, bus.ErrConflict, "orders", "queues")
	_, err = f.c.CreateTopic(f.Context(), bus.Topic{Name: "orders", Type: bus.Compacted})
	f.refused(err, bus.ErrConflict, "orders", "type")
	read, err := f.c.Topic(f.Context(), "orders")
	f.ok(err)
	f.same("unchanged", read, first)
}

func topicNames(f *fixture) {
	for _, name := range []string{"a", "0", "A.b_c-9", "_x", strings.Repeat("n", 249)} {
		f.create(bus.Topic{Name: name})
		f.put(name, events("e", 1)...)
		f.same("read "+name, len(f.queue(name, 0)), 1)
	}
	for _, name := range []string{"", "a b", "a/b", "a:b", "größe", "a\x00", "a*", strings.Repeat("n", 250)} {
		_, err := f.c.CreateTopic(f.Context(), bus.Topic{Name: name})
		f.refused(err, bus.ErrInvalid, "name")
	}
}

func topicBadSettings(f *fixture) {
	for _, bad := range []struct {
		field string
		t     bus.Topic
	}{
		{"queues", bus.Topic{Queues: -1}},
		{"type", bus.Topic{Type: "heap"}},
		{"durability", bus.Topic{Durability: "maybe"}},
		{"retention", bus.Topic{Retention: bus.Retention{Age: -1}}},
		{"retention", bus.Topic{Retention: bus.Retention{Bytes: -1}}},
	} {
		bad.t.Name = "orders"
		_, err := f.c.CreateTopic(f.Context(), bad.t)
		f.refused(err, bus.ErrInvalid, "orders", bad.field)
	}
	_, err := f.c.CreateTopic(f.Context(), bus.Topic{Name: "orders", Queues: 1025})
	f.refused(err, bus.ErrInvalid, "queues", "1024")
	_, err = f.c.Topic(f.Context(), "orders")
	f.refused(err, bus.ErrNoTopic, "orders")
}

func topicTypesToCome(f *fixture) {
	for _, typ := range []bus.TopicType{bus.FIFO, bus.Delay, bus.Transaction, bus.Lite} {
		_, err := f.c.CreateTopic(f.Context(), bus.Topic{Name: "orders", Type: typ})
		f.refused(err, bus.ErrUnsupported, "orders", "type", string(typ))
	}
}

func topicList(f *fixture) {
	for _, name := range []string{"b", "c", "a"} {
		f.topic(name, 1)
	}
	list, err := f.c.Topics(f.Context())
	f.ok(err)
	var own, internal []string
	seen := map[uint64]string{}
	for _, t := range list {
		if other, dup := seen[t.ID]; dup || t.ID == 0 {
			f.Fatalf("topics %s and %s have id %d", t.Name, other, t.ID)
		}
		seen[t.ID] = t.Name
		if t.Internal() {
			internal = append(internal, t.Name)
		} else {
			own = append(own, t.Name)
		}
	}
	f.same("own", own, []string{"a", "b", "c"})
	for _, name := range []string{bus.TopicPositions, bus.TopicOffsets, bus.TopicState} {
		if !slices.Contains(internal, name) {
			f.Fatalf("internal topics %v lack %s", internal, name)
		}
	}
	if !slices.IsSortedFunc(list, func(a, b bus.Topic) int { return strings.Compare(a.Name, b.Name) }) {
		f.Fatal("not by name")
	}
}

func topicMissing(f *fixture) {
	calls := map[string]func() error{
		"Topic":       func() error { _, err := f.c.Topic(f.Context(), "nix"); return err },
		"DeleteTopic": func() error { return f.c.DeleteTopic(f.Context(), "nix", false) },
		"Bounds":      func() error { _, err := f.c.Bounds(f.Context(), "nix"); return err },
		"OffsetAt":    func() error { _, err := f.c.OffsetAt(f.Context(), "nix", 0, time.Now()); return err },
		"Scan":        func() error { _, err := f.c.Scan(f.Context(), "nix", "", "", 0); return err },
		"Changed":     func() error { _, err := f.c.Changed(f.Context(), "nix", -1); return err },
		"Read": func() error {
			_, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "nix"}}, bus.Limit{Wait: patience})
			return err
		},
	}
	for name, call := range calls {
		err := call()
		if !errors.Is(err, bus.ErrNoTopic) {
			f.Fatalf("%s: %v, want ErrNoTopic", name, err)
		}
		f.refused(err, bus.ErrNoTopic, "nix")
	}
}

func topicDelete(f *fixture) {
	f.topic("orders", 2)
	f.put("orders", events("e", 3)...)
	f.ok(f.c.DeleteTopic(f.Context(), "orders", false))
	_, err := f.c.Topic(f.Context(), "orders")
	f.refused(err, bus.ErrNoTopic, "orders")
	_, err = f.c.Append(f.Context(), bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: events("e", 1)}}})
	f.refused(err, bus.ErrNoTopic, "orders")
	list, err := f.c.Topics(f.Context())
	f.ok(err)
	if slices.ContainsFunc(list, func(t bus.Topic) bool { return t.Name == "orders" }) {
		f.Fatal("still listed")
	}
}

func topicDeleteLinked(f *fixture) {
	orders := f.topic("orders", 1)
	f.topic("target", 1)
	at := f.put("orders", events("e", 1)...)[0]
	f.append(bus.Batch{Writes: []bus.Write{{Topic: "target", Links: []bus.Link{{To: ref(orders, at)}}}}})
	f.refused(f.c.DeleteTopic(f.Context(), "orders", false), bus.ErrInUse, "orders", "target")
	f.same("still there", ids(f.queue("orders", 0)), []string{"e0"})

	f.ok(f.c.DeleteTopic(f.Context(), "target", false)) // with its link
	f.ok(f.c.DeleteTopic(f.Context(), "orders", false))

	orders = f.topic("orders", 1)
	f.topic("target", 1)
	at = f.put("orders", events("e", 1)...)[0]
	f.append(bus.Batch{Writes: []bus.Write{{Topic: "target", Links: []bus.Link{{To: ref(orders, at)}}}}})
	f.ok(f.c.DeleteTopic(f.Context(), "orders", true))
	_, err := f.c.Topic(f.Context(), "orders")
	f.refused(err, bus.ErrNoTopic, "orders")
}

func topicDeleteRead(f *fixture) {
	f.topic("orders", 1)
	m, own := f.own("readers", "orders/0")
	f.refused(f.c.DeleteTopic(f.Context(), "orders", false), bus.ErrInUse, "orders", "readers")
	f.save(own["orders/0"], 0)
	f.ok(m.Leave(f.Context()))
	f.ok(f.c.DeleteTopic(f.Context(), "orders", false)) // a checkpoint alone reads nothing

	f.topic("orders", 1)
	f.own("readers", "orders/0")
	f.ok(f.c.DeleteTopic(f.Context(), "orders", true))
}

func topicAnew(f *fixture) {
	first := f.topic("orders", 1)
	f.put("orders", events("old", 3)...)
	_, own := f.own("readers", "orders/0")
	f.save(own["orders/0"], 2)
	f.ok(f.c.DeleteTopic(f.Context(), "orders", true))

	second := f.topic("orders", 1)
	if second.ID == first.ID || second.ID == 0 {
		f.Fatalf("made anew with id %d, was %d", second.ID, first.ID)
	}
	f.same("empty", f.bound("orders", 0), bus.Bound{})
	f.put("orders", events("new", 2)...)
	f.same("new events from offset 0", ids(f.queue("orders", 0)), []string{"new0", "new1"})
	_, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "orders", ID: first.ID, Next: 1}}, bus.Limit{})
	f.refused(err, bus.ErrNoTopic, "orders")
	recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "orders", ID: second.ID, Next: 1}}, bus.Limit{})
	f.ok(err)
	f.same("by the new id", ids(recs), []string{"new1"})
	f.same("the old checkpoint", f.checkpoint("readers", "orders/0").Next, int64(-1))
}

func topicRetentionAge(f *fixture) {
	f.create(bus.Topic{Name: "orders", Retention: bus.Retention{Age: bus.Duration(50 * time.Millisecond)}})
	f.topic("kept", 1)
	f.put("orders", events("e", 5)...)
	f.put("kept", events("e", 5)...)
	f.eventually("all are too old", func() bool {
		b := f.bound("orders", 0)
		f.same("next", b.Next, int64(5))
		return b.First == 5
	})
	recs, err := f.c.Read(f.Context(), []bus.Cursor{{Topic: "orders"}}, bus.Limit{})
	f.ok(err)
	f.same("old ones read", len(recs), 0)
	f.same("offset of the next", f.put("orders", events("n", 1)...)[0].Offset, int64(5))
	f.same("without retention", len(f.queue("kept", 0)), 5)
}

func topicRetentionBytes(f *fixture) {
	f.create(bus.Topic{Name: "orders", Retention: bus.Retention{Bytes: 64 << 10}})
	data := strings.Repeat("x", 8<<10)
	for i := range 40 {
		f.put("orders", ev(fmt.Sprintf("e%d", i), "", data))
	}
	f.eventually("about eight are left", func() bool {
		b := f.bound("orders", 0)
		return b.Next == 40 && b.First >= 28 && b.First < 40
	})
	recs := f.queue("orders", 0)
	f.same("the last", recs[len(recs)-1].ID, "e39")
}
