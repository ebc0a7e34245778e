package event

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// goldenRun is a run of records that uses every part of the format.
func goldenRun() []Event {
	at := time.Date(2026, 1, 31, 9, 30, 0, 5, time.UTC)
	return []Event{
		{ID: "1", Source: "/shop", Type: "order.created", ContentType: "application/json", Schema: "urn:order:1", Subject: "o-1", Key: "c-17", Time: at, Ext: []Attr{{"region", "eu", String}, {"big", "true", Bool}, {"n", "-3", Int}}, Data: []byte(`{"amount":149.90}`)},
		{ID: "2", Source: "/shop", Type: "order.created", ContentType: "application/json", Schema: "urn:order:1", Key: "c-17", Data: []byte(`{}`)},
		{ID: "3", Source: "/shop", Type: "order.deleted", Key: "c-17"},
		{ID: "4", Source: "/shop", Type: "order.deleted", Data: []byte{}},
		{ID: "5", Source: "/é", Type: "t", Time: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), Data: []byte{0, 255}},
	}
}

// TestGolden reads bytes that earlier versions wrote, and writes the same.
// MILLRACE_UPDATE=1 writes the file: only together with a new format version.
func TestGolden(t *testing.T) {
	t.Parallel()
	const file = "testdata/records-v1.hex"
	var b []byte
	want := goldenRun()
	var lines strings.Builder
	for i := range want {
		var prev *Event
		if i > 0 {
			prev = &want[i-1]
		}
		n := len(b)
		b = AppendRecord(b, prev, &want[i])
		lines.WriteString(hex.EncodeToString(b[n:]) + "\n")
	}
	if os.Getenv("MILLRACE_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), lines.String()); diff != "" {
		t.Errorf("the format changed (-golden +now)\n%s", diff)
	}
	stored, err := hex.DecodeString(strings.ReplaceAll(string(golden), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	var e Event
	for i := range want {
		if stored, err = DecodeRecord(stored, &e); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i], e); diff != "" {
			t.Errorf("record %d (-want +got)\n%s", i, diff)
		}
	}
	if len(stored) != 0 {
		t.Errorf("%d bytes are left", len(stored))
	}
}

// TestRecordRoundTrip writes runs of any events and reads them back; every text
// cut short is refused.
func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		run := rapid.SliceOfN(anyEvent(false), 1, 5).Draw(t, "run")
		for i := 1; i < len(run); i++ { // neighbours share much
			if rapid.Bool().Draw(t, "same") {
				run[i].Source, run[i].Type, run[i].ContentType = run[i-1].Source, run[i-1].Type, run[i-1].ContentType
			}
		}
		b := []byte("before")
		var ends []int
		for i := range run {
			var prev *Event
			if i > 0 {
				prev = &run[i-1]
			}
			b = AppendRecord(b, prev, &run[i])
			ends = append(ends, len(b))
		}
		rest := b[len("before"):]
		var e Event
		for i := range run {
			before := e
			if cut := rapid.IntRange(0, len(rest)-1).Draw(t, "cut"); len(b)-len(rest)+cut < ends[i] {
				short := before
				if _, err := DecodeRecord(rest[:cut], &short); !errors.Is(err, ErrRecord) {
					t.Fatalf("%d of its bytes are taken for a record: %v", cut, err)
				}
			}
			var err error
			if rest, err = DecodeRecord(rest, &e); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(run[i], e); diff != "" {
				t.Fatalf("record %d (-want +got)\n%s", i, diff)
			}
			if e.Data != nil && cap(e.Data) != len(e.Data) {
				t.Fatalf("data can grow into the next record")
			}
			if len(b)-len(rest) != ends[i] {
				t.Fatalf("record %d ends at %d, not %d", i, len(b)-len(rest), ends[i])
			}
		}
	})
}

func TestAttrs(t *testing.T) {
	t.Parallel()
	want := []Attr{{"a", "", String}, {"b", "true", Bool}, {"", "-1", Int}}
	b := append(AppendAttrs(nil, want), "rest"...)
	got, rest, err := DecodeAttrs(b)
	if err != nil || string(rest) != "rest" || !cmp.Equal(got, want) {
		t.Errorf("%v, %q, %v", got, rest, err)
	}
	if got, rest, err := DecodeAttrs(AppendAttrs(nil, nil)); err != nil || got != nil || len(rest) != 0 {
		t.Errorf("%v, %q, %v", got, rest, err)
	}
	for _, bad := range [][]byte{{}, {1}, {1, 0}, {1, 0, 1}, {1, 3, 0, 0}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {2, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 12)} {
		if got, _, err := DecodeAttrs(bad); !errors.Is(err, ErrRecord) {
			t.Errorf("%x is taken for %v", bad, got)
		}
	}
}

// FuzzDecodeRecord: bytes are refused or are an event that survives being
// written and read again.
func FuzzDecodeRecord(f *testing.F) {
	run := goldenRun()
	for i := range run {
		f.Add(AppendRecord(nil, nil, &run[i]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Event
		rest, err := DecodeRecord(b, &e)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.HasSuffix(b, rest) {
			t.Fatalf("the rest %x is not the end of %x", rest, b)
		}
		again := AppendRecord(nil, nil, &e)
		var back Event
		if left, err := DecodeRecord(again, &back); err != nil || len(left) != 0 {
			t.Fatalf("%x is read as %+v, written as %x, which is refused: %v", b, e, again, err)
		}
		if diff := cmp.Diff(e, back); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}
