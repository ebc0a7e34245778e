package rpc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"

	"github.com/google/go-cmp/cmp"
)

var cmpAll = cmp.AllowUnexported(appendRequest{}, appendAnswer{}, run{}, readRequest{}, scanRequest{}, records{}, positions{})

// samples are one of every message, with everything in it.
func samples() map[string]message {
	at := time.Date(2026, 1, 31, 9, 30, 0, 123456789, time.UTC)
	rich := event.Event{
		ID: "1", Source: "/shop", Type: "order.created", Subject: "s", Time: at, ContentType: "application/json", Schema: "urn:x",
		Key: "k\xff", Ext: []event.Attr{{Name: "n", Value: "-3", Kind: event.Int}, {Name: "b", Value: "true", Kind: event.Bool}}, Data: []byte(`{"a":1}`),
	}
	gone := event.Event{ID: "2", Source: "/shop", Type: "order.created", Key: "k\xff"}
	owner := bus.Owner{Group: "g", Slot: "orders/0", Epoch: 7}
	return map[string]message{
		"append": &appendRequest{batch: bus.Batch{
			ID: "batch",
			Writes: []bus.Write{
				{Topic: "orders", Events: []event.Event{rich, gone}},
				{Topic: "target", Links: []bus.Link{{
					To: event.Ref{Topic: 5, Queue: 2, Offset: 1 << 40}, Key: "k", Attempt: 3,
					Overlay: []event.Attr{{Name: "mrreason", Value: "why"}},
				}}},
			},
			Saves: []bus.Checkpoint{
				{Owner: owner, Next: 42, Follows: "__router.orders"},
				{Owner: owner, Positions: map[string]json.RawMessage{"a": json.RawMessage(`{"n": 1}`), "b": nil}},
			},
			State: []bus.Keyed{{Space: "s", Key: "k", Value: []byte{0, 255}}, {Space: "s", Key: "gone"}, {Space: "s", Key: "empty", Value: []byte{}}},
			As:    []bus.Owner{{Group: "h", Slot: "x", Epoch: 1 << 63}},
		}},
		"append-answer": &appendAnswer{runs: []run{{"orders", 0, 7, 2}, {"target", 1, 0, 1}}},
		"read":          &readRequest{from: []bus.Cursor{{Topic: "orders", ID: 9, Queue: 3, Next: -1}}, max: bus.Limit{Records: 10, Bytes: 20, Wait: time.Second}},
		"scan":          &scanRequest{topic: "t", prefix: "p/", after: "p/\xff", limit: 5},
		"records": &records{more: true, recs: []event.Record{
			{Topic: "orders", Queue: 1, Offset: 5, Origin: event.Ref{Topic: 9, Queue: 1, Offset: 5}, Stored: at, Event: rich},
			{Topic: "orders", Queue: 1, Offset: 6, Attempt: 2, Origin: event.Ref{Topic: 4, Offset: 1}, Stored: at.Add(time.Second), Event: gone},
			{Topic: "target", Stored: time.Unix(0, 0).UTC(), Event: rich},
		}},
		"positions": &positions{p: map[string]json.RawMessage{"a": json.RawMessage(`[2, "x"]`), "gone": nil}},
		"topic":     &jsonOf[topicBody]{V: topicBody{Name: "orders", ID: 3, Queues: 4, Type: "normal", Age: -1, Created: at, Once: "x"}},
		"group":     &jsonOf[groupRequest]{V: groupRequest{Group: "g", Slots: []string{"a"}, To: []bus.Cursor{{Topic: "t", Next: 3}}, Once: "x"}},
		"slots":     &jsonOf[slotsAnswer]{V: slotsAnswer{Seq: 3, Slots: []slotBody{{Name: "a", Epoch: 7, Left: 8e9}}}},
		"empty":     &empty{},
	}
}

// fresh is an empty message of m's type.
func fresh(m message) message {
	n, _ := reflect.TypeAssert[message](reflect.New(reflect.TypeOf(m).Elem()))
	return n
}

var update = flag.Bool("update", false, "write the golden messages anew")

// TestGolden: the bytes of version 1 stay as they are, in both directions.
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, m := range samples() {
		file := filepath.Join("testdata", "golden", name+".hex")
		if *update {
			if err := os.WriteFile(file, []byte(hex.Dump(marshal(m))), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.Dump(marshal(m)); got != string(want) {
			t.Errorf("%s is written as\n%swant\n%s", name, got, want)
		}
		got := fresh(m)
		if err := unmarshal(undump(t, string(want)), got); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := cmp.Diff(m, got, cmpAll); d != "" {
			t.Errorf("%s (-want +read):\n%s", name, d)
		}
	}
}

// undump reads hex.Dump's form.
func undump(t *testing.T, dump string) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(dump) {
		_, line, _ = strings.Cut(line, "  ")
		line, _, _ = strings.Cut(line, "|")
		b, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
		if err != nil {
			b, err = hex.DecodeString(strings.Join(strings.Fields(line), ""))
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
	}
	return out
}

func TestMalformed(t *testing.T) {
	t.Parallel()
	for name, m := range samples() {
		b := marshal(m)
		for n := range b {
			// Records have no end of their own: cut between two they are fewer.
			if err := unmarshal(b[:n], fresh(m)); err == nil && name != "records" && name != "empty" {
				t.Errorf("%s cut at %d of %d is taken", name, n, len(b))
			}
		}
		if err := unmarshal(append(bytes.Clone(b), 0), fresh(m)); err == nil && name != "records" {
			t.Errorf("%s with a byte more is taken", name)
		}
		b[0] = version + 1
		if err := unmarshal(b, fresh(m)); !errors.Is(err, errWire) || !strings.Contains(err.Error(), "version 2") {
			t.Errorf("%s of another version: %v", name, err)
		}
	}
}

// TestCountsAreBounded: a small message cannot ask for much memory.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	b := binary.AppendUvarint([]byte{version, 0}, 1<<40) // no id, 2^40 writes
	if err := unmarshal(b, &appendRequest{}); err == nil {
		t.Error("2^40 writes in 8 bytes are taken")
	}
	b = []byte{version, 0, 1, 0} // one write to ""
	b = binary.AppendUvarint(b, maxItems+1)
	for range maxItems + 1 {
		b = event.AppendRecord(b, nil, &event.Event{})
	}
	b = append(b, 0, 0, 0, 0)
	if err := unmarshal(b, &appendRequest{}); err == nil {
		t.Error("more than maxItems events are taken")
	}
	a := appendAnswer{runs: []run{{"t", 0, 0, 1 << 60}}}
	if _, ok := a.appended(3); ok {
		t.Error("2^60 places for three events are taken")
	}
	for _, length := range []int64{-1, 2, 4} {
		a.runs[0].length = length
		if _, ok := a.appended(3); ok {
			t.Errorf("%d places for three events are taken", length)
		}
	}
}

func TestRecordsAreCut(t *testing.T) {
	t.Parallel()
	var recs []event.Record
	for i := range 10 {
		recs = append(recs, event.Record{Topic: "t", Offset: int64(i), Stored: time.Unix(0, 0).UTC(), Event: event.Event{ID: "x", Data: make([]byte, 100)}})
	}
	for size, want := range map[int]int{0: 10, 1: 1, 50: 1, 450: 3, 5000: 10} {
		var got records
		if err := unmarshal(marshal(&records{recs: recs, max: size}), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.recs) != want || got.more != (want < 10) {
			t.Errorf("max %d: %d records, more %t", size, len(got.recs), got.more)
		}
	}
}

// FuzzMessages: whatever comes in, a decoder neither panics nor takes what it
// would not write the same way again.
func FuzzMessages(f *testing.F) {
	for _, m := range samples() {
		f.Add(marshal(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, m := range samples() {
			first := fresh(m)
			if unmarshal(bytes.Clone(b), first) != nil {
				continue
			}
			out := marshal(first)
			second := fresh(m)
			if err := unmarshal(out, second); err != nil {
				t.Fatalf("%s: what was written cannot be read: %v", name, err)
			}
			if !bytes.Equal(marshal(second), out) {
				t.Fatalf("%s changes when read and written again", name)
			}
		}
	})
}
