package frame

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/bus/event"
	"millrace/bus/index"
)

// sample is a payload with every kind of run.
func sample() []byte {
	e1 := event.Event{ID: "1", Source: "/s", Type: "t", Key: "k", Data: []byte(`{"a":1}`), Time: time.Unix(1_700_000_000, 5).UTC()}
	e2 := event.Event{ID: "2", Source: "/s", Type: "t", Ext: []event.Attr{{Name: "n", Value: "7", Kind: event.Int}}}
	l := Link{To: event.Ref{Topic: 100, Queue: 2, Offset: 9000}, Key: "k", Attempt: 3, Overlay: []event.Attr{{Name: "mrreason", Value: "why"}}}
	q := index.QueueID{Topic: 100, Queue: 2}
	records := event.AppendRecord(event.AppendRecord(nil, nil, &e1), &e1, &e2)
	ids := AppendID(nil, "id-1", index.Known{Pos: 77, Stored: 88, Parts: []index.Part{{Queue: q, First: 1, Count: 2}}})
	runs := []Run{
		{Queue: q, Kind: Records, First: 10, Stored: 1_700_000_000_000_000_000, Count: 2, Body: records},
		{Queue: index.QueueID{Topic: 101}, Kind: Links, Flags: Compacted, First: 4, Stored: 5, Count: 1, Body: AppendLink(nil, &l)},
		{Queue: q, Kind: Bound, First: 3, Stored: 12},
		{Queue: index.QueueID{Topic: 102}, Kind: Drop},
		{Kind: IDs, Count: 1, Body: ids},
		{Kind: ForgetIDs, Count: 1, Body: ids},
		{Queue: q, Kind: ForgetKey, First: 1},
		{Queue: q, Kind: Forget, First: 2},
	}
	b := make([]byte, Header)
	for i := range runs {
		b = AppendRun(b, &runs[i])
	}
	b = AppendTail(b, "batch-1", []Part{{Run: 0, N: 2}, {Run: 1, N: 1}})
	PutHeader(b, "batch-1", len(runs))
	return b
}

// TestGolden holds the format: a payload written by any earlier version reads
// the same, and the same payload is written to the same bytes.
func TestGolden(t *testing.T) {
	t.Parallel()
	file := filepath.Join("testdata", "payload-v1.hex")
	got := hex.Dump(sample())
	if os.Getenv("MILLRACE_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Fatalf("the format changed (-golden +now):\n%s", diff)
	}
	p, err := Parse(sample())
	if err != nil || p.ID != "batch-1" || len(p.Runs) != 8 || len(p.Order) != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	l, rest, err := DecodeLink(p.Runs[1].Body)
	if err != nil || len(rest) > 0 || l.To.Offset != 9000 || l.Attempt != 3 || l.Overlay[0].Value != "why" {
		t.Fatalf("link %+v, %v", l, err)
	}
	ids, err := DecodeIDs(&p.Runs[4])
	if err != nil || ids["id-1"].Parts[0].Count != 2 {
		t.Fatalf("ids %+v, %v", ids, err)
	}
}

// FuzzPayload: no bytes make the decoders panic or take memory beyond the
// input's size, and what parses is laid out the same again.
func FuzzPayload(f *testing.F) {
	f.Add(sample())
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		out := make([]byte, Header)
		for i := range p.Runs {
			h := &p.Runs[i]
			out = AppendRun(out, h)
			switch h.Kind {
			case Records:
				var e event.Event
				rest := h.Body
				for range h.Count {
					if rest, err = event.DecodeRecord(rest, &e); err != nil {
						break
					}
				}
			case Links:
				if _, err := Pins(h.Body, h.Count); err == nil {
					_, _, _ = OnlyRecord(h)
				}
			case IDs, ForgetIDs:
				_, _ = DecodeIDs(h)
			}
		}
		p.Parts()
		if n := len(out); !bytes.Equal(out[Header:n], clearReserved(b)[Header:n]) {
			t.Fatalf("laid out differently:\n%x\n%x", out, b[:n])
		}
	})
}

// clearReserved zeroes the reserved bytes of every run header, which are not kept.
func clearReserved(b []byte) []byte {
	b = bytes.Clone(b)
	p, err := Parse(b)
	if err != nil {
		return b
	}
	for i := range p.Runs {
		b[p.Runs[i].Off+14], b[p.Runs[i].Off+15] = 0, 0
	}
	return b
}
