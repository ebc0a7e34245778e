package event

import (
	"bytes"
	"testing"
	"time"
)

// oneKB is an event with about 1 KB of JSON data.
func oneKB() Event {
	data := append([]byte(`{"id":1,"items":[`), bytes.Repeat([]byte(`{"sku":"SKU-17","count":3,"price":19.99,"tags":["a","b"]},`), 16)...)
	data[len(data)-1] = ']'
	return Event{
		ID: "0192f0c1-7b1e-7c55-a1a4-1d1d6f7c6b21", Source: "/shop/eu", Type: "order.created", Subject: "order/17", Key: "c-17",
		ContentType: "application/json", Time: time.Date(2026, 1, 31, 9, 30, 0, 5000, time.UTC),
		Ext: []Attr{{"region", "eu", String}, {"priority", "3", Int}}, Data: append(data, '}'),
	}
}

// TestHotPathsDoNotAllocate holds what runs once per event to no garbage.
func TestHotPathsDoNotAllocate(t *testing.T) {
	e := oneKB()
	r := Record{Topic: "orders", Offset: 5, Attempt: 1, Origin: Ref{Topic: 1, Offset: 5}, Event: e}
	text := e
	text.ContentType = "text/plain; charset=utf-8"
	binary := e
	binary.ContentType = "application/vnd.x"
	buf := make([]byte, 0, 8192)
	record := AppendRecord(nil, nil, &e)
	for name, f := range map[string]func(){
		"AppendJSON":         func() { AppendJSON(buf, &e) },
		"AppendJSON, text":   func() { AppendJSON(buf, &text) },
		"AppendJSON, binary": func() { AppendJSON(buf, &binary) },
		"AppendRecordJSON":   func() { AppendRecordJSON(buf, &r) },
		"AppendRecord":       func() { AppendRecord(buf, nil, &e) },
		"IsJSON":             func() { IsJSON("application/vnd.x+json; charset=utf-8") },
		"CheckJSON":          func() { _ = CheckJSON(e.Data) },
	} {
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	var back Event
	if n := testing.AllocsPerRun(20, func() { _, _ = DecodeRecord(record, &back) }); n > 1 {
		t.Errorf("DecodeRecord allocates %v times: only Ext may", n)
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	e := oneKB()
	buf := AppendJSON(nil, &e)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendJSON(buf[:0], &e)
	}
}

func BenchmarkParseJSON(b *testing.B) {
	e := oneKB()
	text := AppendJSON(nil, &e)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseJSON(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckJSON(b *testing.B) {
	e := oneKB()
	b.SetBytes(int64(len(e.Data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckJSON(e.Data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendRecord(b *testing.B) {
	e := oneKB()
	buf := AppendRecord(nil, nil, &e)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendRecord(buf[:0], nil, &e)
	}
}

func BenchmarkDecodeRecord(b *testing.B) {
	e := oneKB()
	record := AppendRecord(nil, nil, &e)
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	var back Event
	for b.Loop() {
		if _, err := DecodeRecord(record, &back); err != nil {
			b.Fatal(err)
		}
	}
}
