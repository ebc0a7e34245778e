package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/bus/event"
	"millrace/connectors"
)

// reader runs a source and keeps its positions as the runtime does.
type reader struct {
	t         *testing.T
	config    map[string]any
	positions map[string]json.RawMessage
	source    connectors.Source
	failed    []connectors.BadInput
}

func newReader(t *testing.T, config map[string]any) *reader {
	t.Helper()
	r := &reader{t: t, config: map[string]any{"topic": "t", "poll.interval": "10ms"}, positions: map[string]json.RawMessage{}}
	maps.Copy(r.config, config)
	t.Cleanup(r.close)
	return r
}

func (r *reader) close() {
	if r.source != nil {
		_ = r.source.Close()
		r.source = nil
	}
}

func (r *reader) read(ctx context.Context) ([]event.Event, error) {
	r.t.Helper()
	if r.source == nil {
		s, err := Plugin().Source.Open(ctx, r.config, connectors.Env{Positions: maps.Clone(r.positions)})
		if err != nil {
			return nil, err
		}
		r.source = s
	}
	p, err := r.source.Read(ctx)
	if err != nil {
		return nil, err
	}
	for partition, offset := range p.Positions {
		if offset == nil {
			delete(r.positions, partition)
		} else {
			r.positions[partition] = offset
		}
	}
	r.failed = append(r.failed, p.Failed...)
	var events []event.Event
	for _, out := range p.Events {
		if err := out.Event.Validate(); err != nil || out.Topic != "t" {
			r.t.Fatal(err, out)
		}
		events = append(events, out.Event)
	}
	return events, nil
}

// want reads until n events are there, and no more come for a few polls.
func (r *reader) want(n int) []event.Event {
	r.t.Helper()
	var events []event.Event
	for {
		timeout := 10 * time.Second
		if len(events) >= n {
			timeout = 60 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), timeout)
		more, err := r.read(ctx)
		cancel()
		events = append(events, more...)
		switch {
		case errors.Is(err, context.DeadlineExceeded) && len(events) == n, errors.Is(err, io.EOF) && len(events) == n:
			return events
		case err != nil:
			r.t.Fatalf("%d events, not %d: %v", len(events), n, err)
		case len(events) > n:
			r.t.Fatalf("%d events, not %d: %s", len(events), n, datas(events))
		}
	}
}

func datas(events []event.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, string(e.Data))
	}
	return out
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, content string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNDJSON(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "in put.ndjson")
	write(t, path, "\ufeff{\"a\":{\"b\":1}}\r\n\n  \n[1,2]\n{\"bad\":\n\"x\xff\"\n"+
		`{"specversion":"1.0","id":"i","source":"s","type":"t","data":{"specversion":1}}`+"\n"+
		`{"specversion":"1.0","id":"i"}`+"\n"+`{"specversion":"1.0","id":"i","source":"s","type":"t","time":"x"}`+"\n7")
	r := newReader(t, map[string]any{"path": path, "follow": "false", "key": "a.b", "subject": "sub"})
	events := r.want(5)
	check(t, datas(events), []string{`{"a":{"b":1}}`, `[1,2]`, `{"specversion":1}`, `{"specversion":"1.0","id":"i"}`, `7`})
	first := events[0]
	if !strings.HasSuffix(first.ID, ":0") || first.Key != "1" || first.Source != "/files"+strings.ReplaceAll(path, " ", "%20") ||
		first.Type != "millrace.file.line" || first.Subject != "sub" || first.ContentType != "application/json" || events[2].ID != "i" {
		t.Errorf("%+v", first)
	}
	var failures []string
	for _, f := range r.failed {
		failures = append(failures, fmt.Sprintf("%s %q %v", strings.TrimPrefix(f.Origin, path), f.Raw, f.Err))
	}
	check(t, failures, []string{
		`:5 "{\"bad\":\n" malformed JSON at byte 7: the text ends too early`,
		`:6 "\"x\xff\"\n" malformed JSON at byte 2: not valid UTF-8`,
		`:9 "{\"specversion\":\"1.0\",\"id\":\"i\",\"source\":\"s\",\"type\":\"t\",\"time\":\"x\"}\n" time "x" is not an RFC 3339 time such as 2026-01-31T09:30:00Z`,
	})
}

func TestLongLines(t *testing.T) {
	t.Parallel()
	for _, last := range []string{"\n", ""} {
		path := filepath.Join(t.TempDir(), "x.txt")
		huge := strings.Repeat("y", 3*chunkBytes)
		write(t, path, strings.Repeat("a", 64)+"\n"+strings.Repeat("b", 67)+"\nc\n"+huge+"\nd\n"+huge+last)
		r := newReader(t, map[string]any{"path": path, "follow": false, "max.line.bytes": 64})
		check(t, datas(r.want(3)), []string{strings.Repeat("a", 64), "c", "d"})
		var origins []string
		for _, f := range r.failed {
			origins = append(origins, strings.TrimPrefix(f.Origin, path)+fmt.Sprint(" ", len(f.Raw)), f.Err.Error())
		}
		long := "longer than max.line.bytes (64)"
		check(t, origins, []string{":2 68", long, ":4 65536", long, ":6 65536", long})
	}
}

func TestFollowAndRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.ndjson")
	write(t, path, "1\n2")
	r := newReader(t, map[string]any{"path": path})
	check(t, datas(r.want(1)), []string{"1"})
	appendTo(t, path, "2\n3\n")
	check(t, datas(r.want(2)), []string{"22", "3"})
	r.close()
	appendTo(t, path, "4\n")
	check(t, datas(r.want(1)), []string{"4"})
	fresh := newReader(t, map[string]any{"path": path})
	again := fresh.want(4)
	check(t, datas(again), []string{"1", "22", "3", "4"})
	if len(r.positions) != 1 {
		t.Error(r.positions)
	}
}

func TestRotationByRename(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.log")
		write(t, path, "1\n")
		r := newReader(t, map[string]any{"path": filepath.Join(dir, "*.log")})
		check(t, datas(r.want(1)), []string{"1"})
		if restart {
			r.close()
		}
		appendTo(t, path, "2\n")
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		appendTo(t, path+".1", "3\n")
		write(t, path, "4\n")
		got := datas(r.want(3))
		if !cmp.Equal(got, []string{"2", "3", "4"}) && !cmp.Equal(got, []string{"4", "2", "3"}) {
			t.Error(restart, got)
		}
		appendTo(t, path+".1", "5\n")
		appendTo(t, path, "6\n")
		if got := datas(r.want(2)); len(got) != 2 {
			t.Error(got)
		}
	}
}

func TestTruncation(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		for _, second := range []string{"b\n", "bbbbb\n", "bbbbbbbbbbb\n"} {
			path := filepath.Join(t.TempDir(), "a.txt")
			write(t, path, "aaaaa\n")
			r := newReader(t, map[string]any{"path": path})
			first := r.want(1)
			if restart {
				r.close()
			}
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			if !restart && len(second) == 6 { // equal size: seen only if the truncation or what follows is
				second += "x\n"
			}
			appendTo(t, path, second)
			n := strings.Count(second, "\n")
			if restart && len(second) == 6 {
				second, n = second+"x\n", 2
				appendTo(t, path, "x\n")
			}
			got := r.want(n)
			check(t, datas(got), strings.Split(strings.TrimSuffix(second, "\n"), "\n"))
			if got[0].ID == first[0].ID {
				t.Error("the id of a line before the truncation is used again:", got[0].ID)
			}
			if len(r.positions) != 1 {
				t.Error(r.positions)
			}
		}
	}
}

func TestDeletedAndCreated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.txt")
	write(t, path, "a\n")
	r := newReader(t, map[string]any{"path": path})
	first := r.want(1)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.close()
	write(t, path, "a\n")
	second := r.want(1)
	if first[0].ID == second[0].ID || len(r.positions) != 1 {
		t.Error(first[0].ID, second[0].ID, r.positions)
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	write(t, path, "\ufeff\"id\",name,name,\r\n1,\"a \"\"b\"\"\nc,d\",x,\r\n\n2,y\n3,\"a\"b,x,y\n4,5\" pipe,é,\n5,\"open,x,y\n6,a,b,c\n")
	r := newReader(t, map[string]any{"path": path, "follow": false, "key": "id"})
	events := r.want(3)
	check(t, datas(events), []string{
		`{"id":"1","name":"a \"b\"\nc,d","name_2":"x","column_4":""}`,
		`{"id":"4","name":"5\" pipe","name_2":"é","column_4":""}`,
		`{"id":"6","name":"a","name_2":"b","column_4":"c"}`,
	})
	if events[1].Key != "4" {
		t.Error(events[1].Key)
	}
	var failures []string
	for _, f := range r.failed {
		failures = append(failures, strings.TrimPrefix(f.Origin, path)+" "+f.Err.Error())
	}
	check(t, failures, []string{":5 the record has 2 fields, the header 4", ":6 field 2 has text after its closing quote", ":8 a quote is opened and never closed"})

	follow := newReader(t, map[string]any{"path": path, "csv.header": true})
	write(t, path, "a,b\n1,2\n")
	follow.want(1)
	follow.close()
	appendTo(t, path, "3,\"4")
	follow.want(0)
	appendTo(t, path, "\n5\"\n")
	check(t, datas(follow.want(1)), []string{`{"a":"3","b":"4\n5"}`})

	tsv := filepath.Join(dir, "b.tsv")
	write(t, tsv, "1\t2\n")
	check(t, datas(newReader(t, map[string]any{"path": tsv, "csv.header": false, "follow": false}).want(1)), []string{`{"column_1":"1","column_2":"2"}`})
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(dir, "a.md"), filepath.Join(sub, "b.json")
	write(t, a, "# A")
	write(t, b, "{not json}")
	write(t, filepath.Join(dir, ".hidden"), "x")
	r := newReader(t, map[string]any{"path": dir, "format": "document"})
	events := r.want(2)
	check(t, datas(events), []string{"# A", "{not json}"})
	if e := events[0]; e.ID != a || e.Key != a || e.ContentType != "text/markdown" || e.Type != "millrace.file.document" || e.Time.IsZero() || len(e.Ext) != 1 {
		t.Errorf("%+v", e)
	}
	if e := events[1]; e.ContentType != "text/plain; charset=utf-8" {
		t.Errorf("%+v", e)
	}
	write(t, a, "# A, changed")
	check(t, datas(r.want(1)), []string{"# A, changed"})
	now := time.Now().Add(time.Hour)
	if err := os.Chtimes(a, now, now); err != nil {
		t.Fatal(err)
	}
	r.want(0) // touched only
	r.close()
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	gone := r.want(1)
	if e := gone[0]; !e.Tombstone() || e.Key != a || e.Type != "millrace.file.deleted" {
		t.Errorf("%+v", e)
	}
	write(t, a, "")
	if e := r.want(1)[0]; e.Tombstone() || len(e.Data) != 0 {
		t.Errorf("%+v", e)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		events, err := r.read(ctx)
		cancel()
		if len(events) > 0 {
			t.Fatal("documents of a missing directory were deleted")
		}
		if errors.Is(err, errNoRoot) {
			return
		}
	}
	t.Error("no error for a missing directory")
}

func TestLimitsOfDocuments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "big.md"), "12345")
	write(t, filepath.Join(dir, "small.md"), "1234")
	r := newReader(t, map[string]any{"path": dir, "max.document.bytes": 4})
	check(t, datas(r.want(1)), []string{"1234"})
	r.close()
	r.want(0)
	if len(r.failed) != 1 || r.failed[0].Err.Error() != "larger than max.document.bytes (4)" {
		t.Error(r.failed)
	}
}
