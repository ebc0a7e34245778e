package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// apply makes topics, sources, sinks and rules by one document.
func (w *world) apply(t *testing.T) {
	t.Helper()
	text := strings.NewReplacer("DIR", w.dir, "TARGET", w.target.server.URL, "GENERATED", strconv.Itoa(w.generated)).Replace(`
kind: Topic
name: orders
spec: {queues: 4}
---
kind: Topic
name: big-orders
spec: {queues: 3}
---
kind: Connector
name: lines
spec: {connector.class: file-source, path: DIR/in/*.ndjson, topic: lines, format: ndjson}
---
kind: Connector
name: generator
spec: {connector.class: generator-source, topic: generated, rate: 500, count: GENERATED, key: "g-{{random 1 5}}"}
---
kind: Connector
name: generated-to-file
spec: {connector.class: file-sink, topics: generated, path: "DIR/topic-out/all.ndjson", format: ndjson}
---
kind: Connector
name: orders-to-file
spec: {connector.class: file-sink, path: "DIR/rule-out/all.ndjson", format: ndjson, rotate.bytes: 64KiB, flush.interval: 100ms}
---
kind: Rule
name: all
spec: {from: [orders], start: earliest, to: [{topic: all-orders}]}
---
kind: Rule
name: big
spec:
  from: [orders]
  when: {type: [order.created], data: {amount: [{numeric: [">", 100]}]}}
  where: data.currency == "EUR"
  transforms: [{set: {data.size: "'big'"}}, {remove: [data.currency]}]
  to: [{topic: big-orders}, {connector: orders-to-file}, {http: {url: "TARGET", allow.private: true}}]
  onError: block
  retry: {strategy: custom, attempts: 1000, delay: 20ms, maxDelay: 1s}
  start: earliest
`)
	file := filepath.Join(w.dir, "world.yaml")
	writeFile(t, file, text)
	resources, err := readResources(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.node().must(t, http.MethodPost, "/apply", map[string]any{"resources": resources}, nil)
}

// drain waits until everything that was fed has gone through everything.
func (w *world) drain(t *testing.T) {
	t.Helper()
	n := w.node()
	until(t, "the sources", func() bool {
		return len(n.events(t, "generated", 0, int64(w.generated-1))) == 1 && len(n.events(t, "lines", 0, int64(w.lines-1))) == 1
	})
	waitIdle(t, n)
}

// record is what a check needs to know of a stored event.
type record struct {
	ID, Type, PartitionKey string
	MrOffset               string
	Data                   json.RawMessage
}

// check compares everything that is there with what it should be.
func (w *world) check(t *testing.T) {
	t.Helper()
	orders := w.read(t, "orders", killQueues)
	for _, a := range w.acks {
		if q := orders[a.Queue]; a.Offset >= int64(len(q)) || q[a.Offset].ID != a.ID {
			t.Errorf("event %s was acknowledged at orders/%d/%d and is not there", a.ID, a.Queue, a.Offset)
		}
	}
	stored := byKey(flat(orders))
	for key, list := range stored {
		last := 0
		for _, r := range list {
			o := orderOf(t, r)
			if o.N != last && o.N != last+1 {
				t.Errorf("key %s: %d comes after %d", key, o.N, last)
			}
			last = o.N
		}
	}

	compare(t, "topic all-orders", ids(stored), ids(byKey(flat(w.read(t, "all-orders", 1)))))
	want := make(map[string][]record)
	for key, list := range stored {
		for _, r := range list {
			if o := orderOf(t, r); r.Type == "order.created" && o.Amount > 100 && o.Currency == "EUR" {
				r.Data = json.RawMessage(fmt.Sprintf(`{"n":%d,"amount":%d,"size":"big"}`, o.N, o.Amount))
				want[key] = append(want[key], r)
			}
		}
	}
	if len(want) == 0 {
		t.Error("the rule matched nothing")
	}
	big := byKey(flat(w.read(t, "big-orders", 3)))
	compare(t, "topic big-orders", ids(want), ids(big))
	for key, list := range big {
		for i, r := range list {
			if i < len(want[key]) && string(r.Data) != string(want[key][i].Data) {
				t.Fatalf("topic big-orders: %s holds %s, want %s", r.ID, r.Data, want[key][i].Data)
			}
		}
	}
	compare(t, "the rule's file sink", ids(want), ids(byKey(readFiles(t, filepath.Join(w.dir, "rule-out")))))
	compare(t, "the http target, repetitions left out", firsts(ids(want)), firsts(w.target.received()))

	w.checkSources(t)
}

// checkSources checks what the sources brought, each exactly once and in order.
func (w *world) checkSources(t *testing.T) {
	t.Helper()
	seen := make(map[string]bool)
	made := w.read(t, "generated", 1)[0]
	for _, r := range made {
		if seen[r.ID] {
			t.Errorf("generated: %s is there twice", r.ID)
		}
		seen[r.ID] = true
	}
	if len(made) != w.generated {
		t.Errorf("generated: %d events, want %d", len(made), w.generated)
	}
	compare(t, "the generated topic's file sink", ids(byKey(made)), ids(byKey(readFiles(t, filepath.Join(w.dir, "topic-out")))))

	lines := w.read(t, "lines", 1)[0]
	for i, r := range lines {
		if o := orderOf(t, r); o.N != i {
			t.Fatalf("lines: offset %d holds line %d", i, o.N)
		}
	}
	if len(lines) != w.lines {
		t.Errorf("lines: %d events, want %d", len(lines), w.lines)
	}
}

// read reads all queues of a topic and checks that offsets are dense.
func (w *world) read(t *testing.T, topic string, queues int) [][]record {
	t.Helper()
	all := make([][]record, queues)
	for q := range queues {
		for i, raw := range w.node().events(t, topic, q, 0) {
			var r record
			if err := json.Unmarshal(raw, &r); err != nil {
				t.Fatal(err)
			}
			if r.MrOffset != strconv.Itoa(i) {
				t.Fatalf("%s/%d: record %d has offset %s", topic, q, i, r.MrOffset)
			}
			all[q] = append(all[q], r)
		}
	}
	return all
}

// readFiles reads the events in all published files of a folder, in the order of
// their names.
func readFiles(t *testing.T, dir string) []record {
	t.Helper()
	var all []record
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r record
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				return fmt.Errorf("%s: %w in %q", file, err, lines.Text())
			}
			all = append(all, r)
		}
		return lines.Err()
	})
	if err != nil {
		t.Error(err)
	}
	return all
}

// countLines counts the lines in all published files of a folder, which may be
// growing.
func countLines(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		count += bytes.Count(b, []byte("\n"))
	}
	return count
}

func orderOf(t *testing.T, r record) order {
	t.Helper()
	var o order
	if err := json.Unmarshal(r.Data, &o); err != nil {
		t.Fatalf("%s: %v in %s", r.ID, err, r.Data)
	}
	return o
}

func flat(queues [][]record) []record { return slices.Concat(queues...) }

func byKey(list []record) map[string][]record {
	m := make(map[string][]record)
	for _, r := range list {
		m[r.PartitionKey] = append(m[r.PartitionKey], r)
	}
	return m
}

// ids keeps each record's id only.
func ids(of map[string][]record) map[string][]string {
	m := make(map[string][]string, len(of))
	for key, list := range of {
		for _, r := range list {
			m[key] = append(m[key], r.ID)
		}
	}
	return m
}

// firsts leaves out all but the first of equal ids.
func firsts(of map[string][]string) map[string][]string {
	m := make(map[string][]string, len(of))
	for key, list := range of {
		seen := make(map[string]bool, len(list))
		for _, id := range list {
			if !seen[id] {
				m[key] = append(m[key], id)
			}
			seen[id] = true
		}
	}
	return m
}

// compare says where two lists of ids by key differ, briefly.
func compare(t *testing.T, what string, want, got map[string][]string) {
	t.Helper()
	diff := cmp.Diff(want, got)
	if diff == "" {
		return
	}
	t.Errorf("%s: -want +got\n%s", what, diff[:min(len(diff), 3000)])
}

// target is an HTTP server that takes events, slowly or not at all now and then.
type target struct {
	server *httptest.Server

	mu  sync.Mutex
	got map[string][]string // key → ids in order of arrival
}

func newTarget(t *testing.T) *target {
	t.Helper()
	g := &target{got: make(map[string][]string)}
	g.server = httptest.NewServer(http.HandlerFunc(g.serve))
	t.Cleanup(g.server.Close)
	return g
}

// serve takes one event in binary mode.
func (g *target) serve(w http.ResponseWriter, r *http.Request) {
	if rand.IntN(50) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	key, id := r.Header.Get("Ce-Partitionkey"), r.Header.Get("Ce-Id")
	if key == "" || id == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	g.got[key] = append(g.got[key], id)
	g.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func (g *target) received() map[string][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := make(map[string][]string, len(g.got))
	for key, list := range g.got {
		m[key] = slices.Clone(list)
	}
	return m
}
