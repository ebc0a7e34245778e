// Package pipeline measures the whole way of an event in one process: a file of
// NDJSON → a topic (sync) → router → set → a file, by CPU time.
package pipeline

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors/builtin"
	"millrace/workers"
)

const lines = 300_000

// BenchmarkPipeline runs 300,000 lines of about 1 KB through a rule that drops
// half of them, by pattern and by pattern and expression, and reports events
// per CPU-second (user and system, all of it in this process) and the five
// functions that the CPU profile of the last run names first.
func BenchmarkPipeline(b *testing.B) {
	in := filepath.Join(b.TempDir(), "in.ndjson")
	size := write(b, in)
	for name, where := range map[string]string{"pattern": "", "where": `data.region != "none" && data.amount > 10`} {
		b.Run(name, func(b *testing.B) {
			var all cost
			for b.Loop() {
				run(b, in, where, &all)
			}
			n := float64(all.runs)
			b.ReportMetric(n*lines/all.cpu.Seconds(), "events/cpu-s")
			b.ReportMetric(n*lines/all.wall.Seconds(), "events/s")
			b.ReportMetric(float64(size)/lines, "B/event")
			b.ReportMetric(float64(all.syncs)/n, "fdatasyncs")
			top(b, all.profile)
		})
	}
}

// cost is what all runs took together.
type cost struct {
	runs      int
	cpu, wall time.Duration
	syncs     int64
	profile   []byte // of the last run, empty where another profile is taken
}

// write makes the input: half of the events are of kind "keep".
func write(b *testing.B, path string) int64 {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	items := strings.Repeat(`{"sku":"A-4711","qty":3,"price":12.5},`, 12)
	for i := range lines {
		kind := "keep"
		if i%2 == 1 {
			kind = "drop"
		}
		fmt.Fprintf(w, `{"order":%d,"kind":%q,"customer":{"id":"c%06d","name":"Ada Lovelace","tier":"gold"},"amount":%d,"currency":"EUR","region":"eu-%d","items":[%s{"sku":"last"}],"note":"%s"}`+"\n",
			i, kind, rng.IntN(1e6), 20+rng.IntN(1000), rng.IntN(4), items, strings.Repeat("lorem ipsum ", 33))
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return st.Size()
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func run(b *testing.B, in, where string, all *cost) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	dir := b.TempDir()
	node, err := bus.Open(dir, bus.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer node.Close()
	out := filepath.Join(dir, "out.ndjson")
	put(b, node, "in", nil)
	put(b, node, workers.TopicRules, map[string]any{"half": workers.RuleDef{
		Spec: rule(where), Starts: map[string]int64{"in/0": 0},
	}})
	put(b, node, bus.TopicConfig, map[string]any{
		"out": connector(map[string]string{"connector.class": "file-sink", "path": out}),
		"in":  connector(map[string]string{"connector.class": "file-source", "path": in, "topic": "in", "cloudevents": "never"}),
	})
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		b.Logf("no profile of this run: %v", err) // -cpuprofile takes it
	}
	began, wall := cpu(b), time.Now()
	rt := workers.New(workers.Options{Client: node, Plugins: builtin.Plugins(), WorkerID: "bench", DataDir: dir})
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	waitLines(b, out, lines/2)
	used, took := cpu(b)-began, time.Since(wall)
	pprof.StopCPUProfile()
	cancel()
	if err := <-done; err != nil && ctx.Err() == nil {
		b.Fatal(err)
	}
	stats, err := node.Stats()
	if err != nil {
		b.Fatal(err)
	}
	all.runs, all.cpu, all.wall = all.runs+1, all.cpu+used, all.wall+took
	all.syncs, all.profile = all.syncs+stats.Log.Syncs, profile.Bytes()
}

func rule(where string) json.RawMessage {
	spec := map[string]any{
		"from": []string{"in"}, "when": map[string]any{"data": map[string]any{"kind": []string{"keep"}}},
		"transforms": []any{map[string]any{"set": map[string]string{"data.size": "'big'"}}},
		"to":         []any{map[string]string{"connector": "out"}},
	}
	if where != "" {
		spec["where"] = where
	}
	raw, _ := json.Marshal(spec)
	return raw
}

func connector(config map[string]string) workers.ConnectorDef {
	return workers.ConnectorDef{Config: config, State: workers.StateRunning}
}

// put makes a topic, compacted with these entries if there are any.
func put(b *testing.B, node *bus.Bus, topic string, entries map[string]any) {
	b.Helper()
	t := bus.Topic{Name: topic}
	if entries != nil {
		t.Type = bus.Compacted
	}
	if _, err := node.CreateTopic(b.Context(), t); err != nil {
		b.Fatal(err)
	}
	var events []event.Event
	for key, v := range entries {
		data, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		events = append(events, event.Event{ID: key, Source: "/bench", Type: "millrace.table.put", Key: key, ContentType: "application/json", Data: data})
	}
	if len(events) > 0 {
		if _, err := node.Append(b.Context(), bus.Batch{Writes: []bus.Write{{Topic: topic, Events: events}}}); err != nil {
			b.Fatal(err)
		}
	}
}

// waitLines waits until a file has that many lines, and checks the first and
// that there are no more.
func waitLines(b *testing.B, path string, want int) {
	b.Helper()
	f, err := os.Open(path)
	for os.IsNotExist(err) {
		<-time.After(5 * time.Millisecond)
		f, err = os.Open(path)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	n, deadline := 0, time.Now().Add(2*time.Minute)
	for n < want {
		k, _ := f.Read(buf)
		n += bytes.Count(buf[:k], []byte("\n"))
		if k == 0 {
			if time.Now().After(deadline) {
				b.Fatalf("%d of %d lines after two minutes", n, want)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	if n != want {
		b.Fatalf("%d lines, want %d", n, want)
	}
	first := make([]byte, 4096)
	k, _ := f.ReadAt(first, 0)
	if line, _, _ := bytes.Cut(first[:k], []byte("\n")); !bytes.Contains(line, []byte(`"size":"big"`)) || !bytes.Contains(line, []byte(`"order":0,`)) {
		b.Fatalf("the first line is not what the rule makes: %s", line)
	}
}

// top logs the five functions that the profile names first.
func top(b *testing.B, profile []byte) {
	b.Helper()
	file := filepath.Join(b.TempDir(), "cpu.out")
	if len(profile) == 0 || os.WriteFile(file, profile, 0o600) != nil {
		return
	}
	out, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=5", file).CombinedOutput()
	if err != nil {
		b.Fatalf("pprof: %v: %s", err, out)
	}
	// A benchmark's log is cut after ten lines: the table alone.
	if _, table, ok := bytes.Cut(out, []byte("nodes out of")); ok {
		_, out, _ = bytes.Cut(table, []byte("\n"))
	}
	b.Logf("the most CPU time:\n%s", out)
}
