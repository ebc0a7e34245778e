package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
)

func open(t *testing.T, config map[string]any) connectors.Sink {
	t.Helper()
	s, err := Plugin().Sink.Open(t.Context(), config, connectors.Env{Connector: "c"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// records makes n records of a queue from an offset on, with their offset as data.
func records(topic string, queue int, from, n int64) []event.Record {
	var out []event.Record
	for i := from; i < from+n; i++ {
		out = append(out, event.Record{Topic: topic, Queue: queue, Offset: i, Event: event.Event{
			ID: strconv.FormatInt(i, 10), Source: "s", Type: "t", Data: fmt.Appendf(nil, "%d", i),
		}})
	}
	return out
}

func put(t *testing.T, s connectors.Sink, recs []event.Record, flush bool) {
	t.Helper()
	if err := s.Write(t.Context(), recs); err != nil {
		t.Fatal(err)
	}
	if flush {
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func offsets(t *testing.T, s connectors.Sink) map[string]int64 {
	t.Helper()
	got, err := s.(connectors.OffsetKeeper).Offsets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

func TestSinkRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "out.ndjson")
	config := map[string]any{"path": path, "value": "data"}
	s := open(t, config)
	put(t, s, records("t", 0, 0, 3), true)
	put(t, s, records("t", 0, 3, 3), false)
	check(t, content(t, path), "0\n1\n2\n")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, "torn wri") // as a crash in the middle of publishing leaves it
	s = open(t, config)
	check(t, offsets(t, s), map[string]int64{"t/0": 3})
	put(t, s, records("t", 0, 3, 2), true)
	check(t, content(t, path), "0\n1\n2\n3\n4\n")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, s, records("t", 0, 5, 1), true)
	check(t, content(t, path), "5\n")
}

func TestSinkWholeEvents(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.ndjson")
	s := open(t, map[string]any{"path": path})
	put(t, s, []event.Record{{Topic: "t", Event: event.Event{ID: "1", Source: "s", Type: "t", Data: []byte("{\n\"a\":1}")}}, {Topic: "t", Offset: 1, Event: event.Event{ID: "2", Source: "s", Type: "t", Key: "k"}}}, true)
	check(t, content(t, path), `{"specversion":"1.0","id":"1","source":"s","type":"t","data":{ "a":1}}`+"\n"+
		`{"specversion":"1.0","id":"2","source":"s","type":"t","partitionkey":"k"}`+"\n")
	r := newReader(t, map[string]any{"path": path, "follow": false})
	if events := r.want(2); events[0].ID != "1" || !events[1].Tombstone() || events[1].Key != "k" {
		t.Error(events)
	}
}

func TestSinkData(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]event.Event{
		`{  "a":1}`: {Data: []byte("{\r\n\"a\":1}")}, `null`: {}, `"a\nb"`: {ContentType: "text/plain", Data: []byte("a\nb")},
		`"//4="`: {ContentType: "image/png", Data: []byte{0xff, 0xfe}}, `""`: {Data: []byte{}},
	} {
		check(t, string(appendLine(nil, &e, false)), want+"\n")
	}
}

func TestSinkTakesForeignFilesAsTheyAre(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.ndjson")
	write(t, path, "theirs")
	s := open(t, map[string]any{"path": path, "value": "data"})
	put(t, s, records("t", 0, 0, 1), true)
	check(t, content(t, path), "theirs\n0\n")
}

func TestSinkRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out.csv")
	s := open(t, map[string]any{"path": path, "format": "csv", "rotate.bytes": 20})
	for i := range int64(6) {
		put(t, s, []event.Record{{Topic: "t", Offset: i, Event: event.Event{Data: fmt.Appendf(nil, `{"a":%d,"b":"x,\"y"}`, i)}}}, true)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "out-*.csv"))
	if err != nil || len(parts) != 5 {
		t.Fatal(parts, err)
	}
	for i, p := range append(parts, path) {
		check(t, content(t, p), fmt.Sprintf("a,b\n%d,\"x,\"\"y\"\n", i))
	}
	s = open(t, map[string]any{"path": path, "format": "csv"})
	check(t, offsets(t, s), map[string]int64{"t/0": 6})
}

func TestSinkRotationByAge(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	path := filepath.Join(dir, "out.ndjson")
	s, err := Plugin().Sink.Open(t.Context(), map[string]any{"path": path, "value": "data", "rotate.interval": "1h"}, connectors.Env{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, records("t", 0, 0, 1), true)
	now = now.Add(59 * time.Minute)
	put(t, s, records("t", 0, 1, 1), true)
	now = now.Add(time.Minute)
	put(t, s, records("t", 0, 2, 1), true)
	check(t, content(t, path), "2\n")
	check(t, content(t, filepath.Join(dir, "out-20260102T030405Z-000001.ndjson")), "0\n1\n")
}

func TestSinkPlaceholders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := map[string]any{"path": filepath.Join(dir, "${topic}", "q${queue}.ndjson"), "value": "data"}
	s := open(t, config)
	put(t, s, append(records("a", 0, 0, 1), append(records("a", 1, 5, 1), records("..", 0, 7, 1)...)...), true)
	check(t, content(t, filepath.Join(dir, "a", "q0.ndjson")), "0\n")
	check(t, content(t, filepath.Join(dir, "a", "q1.ndjson")), "5\n")
	check(t, content(t, filepath.Join(dir, "_", "q0.ndjson")), "7\n")
	check(t, offsets(t, open(t, config)), map[string]int64{"a/0": 1, "a/1": 6, "../0": 8})
}

// TestSinksShareAFile writes four queues into one file at once, with restarts.
func TestSinksShareAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.ndjson")
	config := map[string]any{"path": path, "value": "data"}
	var wg sync.WaitGroup
	for queue := range 4 {
		wg.Go(func() {
			for range 5 {
				s := open(t, config)
				next := offsets(t, s)[fmt.Sprintf("t/%d", queue)]
				for range 5 {
					recs := records("t", queue, next, 3)
					for i := range recs {
						recs[i].Data = fmt.Appendf(nil, "%d%04d", queue, recs[i].Offset)
					}
					if err := errors.Join(s.Write(context.Background(), recs), s.Flush(context.Background())); err != nil {
						t.Error(err)
						return
					}
					next += 3
				}
				_ = s.Write(context.Background(), records("t", queue, next, 1)) // lost with Close
				_ = s.Close()
			}
		})
	}
	wg.Wait()
	next := [4]int{}
	lines := strings.Fields(content(t, path))
	for _, line := range lines {
		queue, offset := int(line[0]-'0'), 0
		if _, err := fmt.Sscanf(line[1:], "%04d", &offset); err != nil || offset != next[queue] {
			t.Fatal(line, next)
		}
		next[queue]++
	}
	if len(lines) != 4*75 {
		t.Error(len(lines))
	}
}

func TestSinkRefusesStaleOwner(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.ndjson")
	config := map[string]any{"path": path, "value": "data"}
	old := open(t, config)
	put(t, old, records("t", 0, 0, 2), true)
	put(t, old, records("t", 0, 2, 2), false)
	owner := open(t, config)
	put(t, owner, records("t", 0, 2, 3), true)
	if err := old.Flush(t.Context()); !errors.Is(err, errTakenOver) {
		t.Error(err)
	}
	check(t, content(t, path), "0\n1\n2\n3\n4\n")
}

func TestSinkCSVFailures(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out.csv")
	config := map[string]any{"path": path, "format": "csv", "csv.columns": "a,b"}
	s := open(t, config)
	recs := records("t", 0, 0, 5)
	for i, data := range []string{`{"b":{"c":[1]},"a":null}`, `7`, `{"c":1}`, ``, `{"a":"é"}`} {
		recs[i].Data = []byte(data)
	}
	recs[3].Data = nil
	err := s.Write(t.Context(), recs)
	var be *connectors.BatchError
	if !errors.As(err, &be) || len(be.Failed) != 3 || !connectors.IsPermanent(be.Failed[1]) || be.Failed[2] == nil || be.Failed[3] == nil {
		t.Fatal(err)
	}
	put(t, s, nil, true)
	check(t, content(t, path), "a,b\n,\"{\"\"c\"\":[1]}\"\né,\n")
	check(t, offsets(t, open(t, config)), map[string]int64{"t/0": 1}) // what failed may not be settled
	ok := records("t", 0, 5, 1)
	ok[0].Data = []byte(`{"a":1}`)
	put(t, s, ok, true)
	check(t, offsets(t, open(t, config)), map[string]int64{"t/0": 6})
	if _, err := Plugin().Sink.Open(t.Context(), map[string]any{"path": "/x/${oops}"}, connectors.Env{}); err == nil {
		t.Error("an unknown placeholder was taken")
	}
	other := open(t, map[string]any{"path": path, "format": "csv", "csv.columns": "x"})
	if err := other.Write(t.Context(), ok); err == nil || !strings.Contains(err.Error(), "csv.columns: ") {
		t.Error(err)
	}
}

// TestSinkCrashInRotation stops between renaming a full file and storing the state.
func TestSinkCrashInRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out.ndjson")
	config := map[string]any{"path": path, "value": "data", "rotate.bytes": 4}
	put(t, open(t, config), records("t", 0, 0, 2), true)
	sidecar, err := os.ReadFile(sidecarPath(path))
	if err != nil {
		t.Fatal(err)
	}
	put(t, open(t, config), records("t", 0, 2, 2), true) // renames
	parts, err := filepath.Glob(filepath.Join(dir, "out-*"))
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, sidecarPath(path), string(sidecar))
	s := open(t, config)
	check(t, offsets(t, s), map[string]int64{"t/0": 2})
	put(t, s, records("t", 0, 2, 2), true)
	put(t, s, records("t", 0, 4, 1), true)
	check(t, content(t, parts[0]), "0\n1\n")
	parts, err = filepath.Glob(filepath.Join(dir, "out-*"))
	if err != nil || len(parts) != 2 {
		t.Fatal(parts, err)
	}
	check(t, content(t, parts[1])+content(t, path), "2\n3\n4\n")
}

// TestSinkCrashInWrite stops after lines were written and before the state says
// so: in a new file, in one that goes on, and in one that was just begun anew.
func TestSinkCrashInWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "out.ndjson")
	config := sinkConfig{Path: path, Format: "ndjson", Value: "data", RotateBytes: 6}
	want := ""
	for i := range int64(7) {
		s, err := openSink(t.Context(), config, connectors.Env{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write(t.Context(), records("t", 0, i, 1)); err != nil {
			t.Fatal(err)
		}
		o := s.(*sink).outputs[path]
		if err := o.locked(t.Context(), func(st *state, f *os.File) error { return o.write(st, f) }); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		put(t, open(t, map[string]any{"path": path, "value": "data", "rotate.bytes": 6}), records("t", 0, i, 1), true)
		want += fmt.Sprintf("%d\n", i)
		parts, err := filepath.Glob(filepath.Join(dir, "out-*"))
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, p := range append(parts, path) {
			got.WriteString(content(t, p))
		}
		check(t, got.String(), want)
	}
}
