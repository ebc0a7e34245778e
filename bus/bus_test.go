package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"millrace/bus/event"
)

// clock is a bus's clock that a test moves.
type clock struct{ nanos atomic.Int64 }

func newClock(seconds int64) *clock {
	c := new(clock)
	c.nanos.Store(seconds * int64(time.Second))
	return c
}

func (c *clock) now() time.Time      { return time.Unix(0, c.nanos.Load()) }
func (c *clock) add(d time.Duration) { c.nanos.Add(int64(d)) }

func openTemp(t *testing.T, o Options) (*Bus, string) {
	t.Helper()
	dir := t.TempDir()
	b, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, dir
}

func ev(id, key, data string) event.Event {
	return event.Event{ID: id, Source: "/test", Type: "t", Key: key, ContentType: "application/json", Data: []byte(data)}
}

func mustCreate(t *testing.T, b *Bus, topic Topic) Topic {
	t.Helper()
	out, err := b.CreateTopic(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mustAppend(t *testing.T, b *Bus, batch Batch) []Appended {
	t.Helper()
	out, err := b.Append(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func dump(t *testing.T, b *Bus) string {
	t.Helper()
	var buf bytes.Buffer
	if err := b.index.Dump(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

func TestAppendReadReopen(t *testing.T) {
	t.Parallel()
	b, dir := openTemp(t, Options{CleanEvery: -1})
	tp := mustCreate(t, b, Topic{Name: "orders", Queues: 3})
	mustCreate(t, b, Topic{Name: "links"})
	var events []event.Event
	for i := range 3000 {
		events = append(events, ev(strconv.Itoa(i), fmt.Sprint("k", i%17), fmt.Sprintf(`{"n":%d}`, i)))
	}
	app := mustAppend(t, b, Batch{ID: "one", Writes: []Write{{Topic: "orders", Events: events}}})
	again := mustAppend(t, b, Batch{ID: "one", Writes: []Write{{Topic: "orders", Events: events}}})
	if fmt.Sprint(app) != fmt.Sprint(again) {
		t.Fatal("a retry gave another answer")
	}
	link := Link{To: event.Ref{Topic: tp.ID, Queue: app[42].Queue, Offset: app[42].Offset}, Overlay: []event.Attr{{Name: "mrreason", Value: "why"}}, Attempt: 2}
	mustAppend(t, b, Batch{
		Writes: []Write{{Topic: "links", Links: []Link{link}}}, State: []Keyed{{Space: "s", Key: "k", Value: []byte("v")}},
		Saves: []Checkpoint{{Owner: Owner{Group: "g", Slot: "orders/1"}, Next: 7}, {Owner: Owner{Group: "src", Slot: "task/0"}, Positions: map[string]json.RawMessage{"p": json.RawMessage("1")}}},
	})
	check := func(b *Bus) {
		t.Helper()
		n := 0
		for q := range 3 {
			recs, err := b.Read(t.Context(), []Cursor{{Topic: "orders", Queue: q}}, Limit{Records: 5000, Wait: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range recs {
				if r.Offset != int64(i) {
					t.Fatalf("queue %d: offset %d at place %d", q, r.Offset, i)
				}
				n++
			}
		}
		if n != 3000 {
			t.Fatalf("read %d events, want 3000", n)
		}
		recs, err := b.Read(t.Context(), []Cursor{{Topic: "links"}}, Limit{})
		if err != nil || len(recs) != 1 || recs[0].ID != "42" || recs[0].Attempt != 2 {
			t.Fatalf("link: %v %v", recs, err)
		}
		if v, _ := recs[0].Get("mrreason"); v != "why" {
			t.Fatalf("overlay: %v", recs[0].Ext)
		}
		if s, _ := b.Checkpoint(t.Context(), "g", "orders/1"); s.Next != 7 {
			t.Fatalf("checkpoint: %+v", s)
		}
		if p, err := b.Positions(t.Context(), "src"); err != nil || string(p["p"]) != "1" {
			t.Fatalf("positions: %v %v", p, err)
		}
		st, err := b.Scan(t.Context(), TopicState, "s/", "", 0)
		if err != nil || len(st) != 1 || string(st[0].Data) != "v" {
			t.Fatalf("state: %v %v", st, err)
		}
	}
	check(b)
	before := dump(t, b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b2, err := Open(dir, Options{CleanEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer b2.Close()
	check(b2)
	if after := dump(t, b2); after != before {
		t.Fatal("views differ after reopening")
	}
}

func TestGroupShares(t *testing.T) {
	t.Parallel()
	b, _ := openTemp(t, Options{CleanEvery: -1, Lease: 300 * time.Millisecond})
	mustCreate(t, b, Topic{Name: "o", Queues: 4})
	slots := []string{"o/0", "o/1", "o/2", "o/3"}
	m1, err := b.Join(t.Context(), "g", slots)
	if err != nil {
		t.Fatal(err)
	}
	got, err := m1.Slots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 {
		got, _ = m1.Slots(t.Context())
	}
	if len(got) != 4 {
		t.Fatalf("one member has %v", got)
	}
	if _, err := b.Append(t.Context(), Batch{Saves: []Checkpoint{{Owner: Owner{"g", "o/0", got[0].Epoch}, Next: 3}}}); err != nil {
		t.Fatal(err)
	}
	if err := b.ResetGroup(t.Context(), "g", []Cursor{{Topic: "o", Next: 1}}); err != nil {
		t.Fatal(err)
	}
	_, err = b.Append(t.Context(), Batch{Saves: []Checkpoint{{Owner: Owner{"g", "o/0", got[0].Epoch}, Next: 4}}})
	if err == nil {
		t.Fatal("a stale owner was accepted")
	}
	if s, _ := b.Checkpoint(t.Context(), "g", "o/0"); s.Next != 1 || s.Epoch <= got[0].Epoch {
		t.Fatalf("after the reset: %+v", s)
	}
}

func BenchmarkAppendRead(bm *testing.B) {
	b, err := Open(bm.TempDir(), Options{CleanEvery: -1})
	if err != nil {
		bm.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	if _, err := b.CreateTopic(ctx, Topic{Name: "o"}); err != nil {
		bm.Fatal(err)
	}
	data := make([]byte, 1000)
	for i := range data {
		data[i] = byte('a' + rand.IntN(26))
	}
	batch := Batch{}
	var events []event.Event
	for i := range 500 {
		events = append(events, event.Event{ID: strconv.Itoa(i), Source: "/s", Type: "t", Data: data})
	}
	batch.Writes = []Write{{Topic: "o", Events: events}}
	bm.ReportAllocs()
	next := int64(0)
	for bm.Loop() {
		if _, err := b.Append(ctx, batch); err != nil {
			bm.Fatal(err)
		}
		recs, err := b.Read(ctx, []Cursor{{Topic: "o", Next: next}}, Limit{})
		if err != nil || len(recs) != 500 {
			bm.Fatal(err, len(recs))
		}
		next += 500
	}
}
