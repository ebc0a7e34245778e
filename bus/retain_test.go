package bus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"millrace/bus/event"
)

// TestViewsAfterRetention removes most of the log by retention and cleaning and
// deletes the views: what is rebuilt from the log alone is equal, to the byte.
func TestViewsAfterRetention(t *testing.T) {
	t.Parallel()
	clock := newClock(1_900_000_000)
	o := Options{CleanEvery: -1, SegmentBytes: 64 << 10, Now: clock.now}
	b, dir := openTemp(t, o)
	orders := mustCreate(t, b, Topic{Name: "orders", Queues: 4, Retention: Retention{Age: Duration(time.Hour)}})
	mustCreate(t, b, Topic{Name: "table", Type: Compacted})
	mustCreate(t, b, Topic{Name: "dead", Type: Compacted})
	mustCreate(t, b, Topic{Name: "idle"})
	mustAppend(t, b, Batch{ID: "idle", Writes: []Write{{Topic: "idle", Events: []event.Event{ev("first", "", "1")}}}})
	var kept []string
	for i := range 3000 {
		clock.add(10 * time.Second)
		key := fmt.Sprint("k", i%50)
		batch := Batch{
			ID: fmt.Sprint("b", i),
			Writes: []Write{
				{Topic: "orders", Events: []event.Event{ev(fmt.Sprint("o", i), key, fmt.Sprintf(`{"n":%d,"pad":"%0500d"}`, i, i))}},
				{Topic: "table", Events: []event.Event{ev(fmt.Sprint("t", i), key, strconv.Itoa(i))}},
			},
			State: []Keyed{{Space: "s", Key: key, Value: fmt.Append(nil, i)}},
			Saves: []Checkpoint{
				{Owner: Owner{Group: "g", Slot: fmt.Sprint("orders/", i%4)}, Next: int64(i / 4)},
				{Owner: Owner{Group: "src", Slot: "task/0"}, Positions: map[string]json.RawMessage{"p": fmt.Append(nil, i)}},
			},
		}
		out := mustAppend(t, b, batch)
		if i%300 == 7 { // an event that a dead letter still needs
			id := fmt.Sprint("o", i)
			kept = append(kept, id)
			mustAppend(t, b, Batch{Writes: []Write{{Topic: "dead", Links: []Link{{
				Key: id, To: event.Ref{Topic: orders.ID, Queue: out[0].Queue, Offset: out[0].Offset},
			}}}}})
		}
	}
	made := int(uint64(b.log.End())/uint64(o.SegmentBytes)) + 1
	clock.add(2 * time.Hour)
	if err := b.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := len(b.log.Segments()); left*10 > made {
		t.Fatalf("%d of about %d segments are left, want at most a tenth", left, made)
	}
	before := dump(t, b)
	check := func(b *Bus) {
		t.Helper()
		if recs, err := b.Read(t.Context(), []Cursor{{Topic: "idle"}}, Limit{}); err != nil || len(recs) != 1 || recs[0].ID != "first" {
			t.Fatalf("idle: %v, %v", recs, err)
		}
		dead, err := b.Scan(t.Context(), "dead", "", "", 0)
		if err != nil || len(dead) != len(kept) {
			t.Fatalf("%d dead letters, want %d (%v)", len(dead), len(kept), err)
		}
		for _, r := range dead {
			if r.ID != r.Key {
				t.Fatalf("dead letter %s resolves to %s", r.Key, r.ID)
			}
		}
		table, err := b.Scan(t.Context(), "table", "", "", 0)
		if err != nil || len(table) != 50 || string(table[0].Data) != "2950" {
			t.Fatalf("table: %d entries, %v", len(table), err)
		}
		for q := range 4 {
			s, err := b.Checkpoint(t.Context(), "g", fmt.Sprint("orders/", q))
			if err != nil || s.Next != 749 {
				t.Fatalf("checkpoint of queue %d: %+v, %v", q, s, err)
			}
		}
		bounds, err := b.Bounds(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		n := int64(0)
		for _, q := range bounds {
			n += q.Next
			if q.First != q.Next {
				t.Fatalf("orders: %+v, want all trimmed", bounds)
			}
		}
		if n != 3000 {
			t.Fatalf("orders gave %d offsets, want 3000", n)
		}
	}
	check(b)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "views")); err != nil {
		t.Fatal(err)
	}
	b2, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer b2.Close()
	check(b2)
	if after := dump(t, b2); after != before {
		t.Fatalf("views differ:\n%s", lineDiff(before, after))
	}
}
