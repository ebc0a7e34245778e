package connectorstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"millrace/bus/event"
	"millrace/connectors"
)

// SinkCase is a sink and targets for it.
type SinkCase struct {
	Plugin connectors.Plugin
	// Target makes a new, empty target. read returns the ids of the events that the
	// target holds durably, in their order, and fails the test where one is torn;
	// it is nil for a target that keeps nothing.
	Target func(t *testing.T) (config map[string]any, read func(t *testing.T) []string)
	// Bad makes a record that the sink must refuse for good; nil where it takes all.
	Bad func(r *event.Record)
}

const topic, queues = "conformance", 2

// Sink runs all checks of a sink.
func Sink(t *testing.T, c SinkCase) {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	kind := c.Plugin.Sink
	plugin(t, &c.Plugin, kind.Guarantee)
	if !t.Run("is configured", func(t *testing.T) {
		config, _ := c.Target(t)
		Config(t, kind.Spec, kind.Check, config)
	}) {
		return
	}
	t.Run("holds what was flushed", c.flushes)
	t.Run("crashes and goes on", c.crashes)
	t.Run("fails records alone", c.fails)
	t.Run("takes tombstones", c.tombstones)
	t.Run("stops when told", c.stops)
	goleak.VerifyNone(t, leaks)
}

// row is record number offset of a queue.
func row(queue int, offset int64) event.Record {
	id := fmt.Sprintf("%d-%d", queue, offset)
	return event.Record{
		Topic: topic, Queue: queue, Offset: offset, Stored: time.Unix(offset, 0),
		Origin: event.Ref{Topic: 7, Queue: queue, Offset: offset},
		Event: event.Event{
			ID: id, Source: "/conformance", Type: "conformance.row", Key: "k" + strconv.FormatInt(offset%3, 10), Time: time.Unix(offset, 0).UTC(),
			ContentType: "application/json", Data: fmt.Appendf(nil, `{"id":%q,"n":%d,"text":"Zürich\n\"quoted\""}`, id, offset),
		},
	}
}

func rows(queue int, from, to int64) []event.Record {
	var out []event.Record
	for i := from; i < to; i++ {
		out = append(out, row(queue, i))
	}
	return out
}

func ids(queue int, from, to int64) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%d-%d", queue, i))
	}
	return out
}

func (c *SinkCase) open(t *testing.T, config map[string]any) connectors.Sink {
	t.Helper()
	s, err := c.Plugin.Sink.Open(t.Context(), config, connectors.Env{Connector: "conformance", Tasks: 1, Now: time.Now, DataDir: t.TempDir()})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func (c *SinkCase) flushes(t *testing.T) {
	config, read := c.Target(t)
	s := c.open(t, config)
	defer closed(t, s)
	if err := s.Flush(t.Context()); err != nil {
		t.Errorf("flush of nothing: %v", err)
	}
	for from := int64(0); from < 30; from += 10 {
		if err := errors.Join(s.Write(t.Context(), rows(0, from, from+5)), s.Write(t.Context(), rows(0, from+5, from+10)), s.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		if read != nil {
			if got, want := read(t), ids(0, 0, from+10); !slices.Equal(got, want) {
				t.Fatalf("after flush the target holds %v, not %v", got, want)
			}
		}
	}
}

// crashes runs random schedules of writes, flushes and closes without a flush,
// starting again where the runtime would; for as long as MILLRACE_SOAK says, 5 s
// without.
func (c *SinkCase) crashes(t *testing.T) {
	_, read := c.Target(t)
	end := time.Now().Add(soak(t))
	for run := 0; run < 2 || read != nil && time.Now().Before(end); run++ {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { c.crash(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func (c *SinkCase) crash(t *testing.T, r *rand.Rand) {
	t.Helper()
	config, read := c.Target(t)
	s := c.open(t, config)
	var next, saved [queues]int64
	keeper := false
	for range 60 {
		switch r.IntN(6) {
		case 0, 1, 2:
			queue := r.IntN(queues)
			to := next[queue] + 1 + r.Int64N(8)
			if err := s.Write(t.Context(), rows(queue, next[queue], to)); err != nil {
				t.Fatal(err)
			}
			next[queue] = to
		case 3, 4:
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if r.IntN(4) > 0 { // else the process dies before the checkpoint is saved
				saved = next
			} else {
				s, next, keeper = c.reopen(t, s, config, saved)
			}
		case 5:
			s, next, keeper = c.reopen(t, s, config, saved)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	if read != nil {
		c.verify(t, read(t), next, keeper)
	}
}

// reopen crashes the sink and opens it where the runtime would go on.
func (c *SinkCase) reopen(t *testing.T, s connectors.Sink, config map[string]any, saved [queues]int64) (connectors.Sink, [queues]int64, bool) {
	t.Helper()
	closed(t, s)
	s = c.open(t, config)
	k, ok := s.(connectors.OffsetKeeper)
	if !ok {
		return s, saved, false
	}
	offsets, err := k.Offsets(t.Context())
	if err != nil {
		t.Fatalf("offsets: %v", err)
	}
	for queue := range saved {
		at, known := offsets[topic+"/"+strconv.Itoa(queue)]
		if known && at < saved[queue] {
			t.Errorf("queue %d: the sink keeps offset %d, but a flush passed %d", queue, at, saved[queue])
		}
		if known {
			saved[queue] = at
		}
	}
	return s, saved, true
}

// verify compares what the target holds with what was written: all of it, in the
// order of each queue; without offsets kept, repetitions are allowed.
func (c *SinkCase) verify(t *testing.T, got []string, next [queues]int64, keeper bool) {
	t.Helper()
	seen := map[string]bool{}
	var firsts [queues][]string
	for _, id := range got {
		if seen[id] {
			if keeper {
				t.Errorf("%s is there twice", id)
			}
			continue
		}
		seen[id] = true
		queue := int(id[0] - '0')
		firsts[queue] = append(firsts[queue], id)
	}
	for queue := range next {
		n := int64(len(firsts[queue])) // without offsets kept, more may have come before the crash than was written since
		if n < next[queue] || keeper && n > next[queue] {
			t.Errorf("queue %d holds %d events, not %d", queue, n, next[queue])
		}
		for i, id := range ids(queue, 0, n) {
			if firsts[queue][i] != id {
				t.Errorf("queue %d holds %s where %s belongs", queue, firsts[queue][i], id)
				break
			}
		}
	}
}

func (c *SinkCase) fails(t *testing.T) {
	if c.Bad == nil {
		return
	}
	config, read := c.Target(t)
	s := c.open(t, config)
	defer closed(t, s)
	recs := rows(0, 0, 5)
	for i := range recs {
		recs[i].Key = "" // else the others of the key may have to wait
	}
	c.Bad(&recs[2])
	err := s.Write(t.Context(), recs)
	be, ok := errors.AsType[*connectors.BatchError](err)
	if !ok || len(be.Failed) != 1 || be.Failed[2] == nil || !connectors.IsPermanent(be.Failed[2]) {
		t.Fatalf("a bad record among good ones: %v", err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if read != nil {
		if got, want := read(t), append(ids(0, 0, 2), ids(0, 3, 5)...); !slices.Equal(got, want) {
			t.Errorf("the target holds %v, not %v", got, want)
		}
	}
}

// tombstones are taken, or refused for good and alone.
func (c *SinkCase) tombstones(t *testing.T) {
	config, _ := c.Target(t)
	s := c.open(t, config)
	defer closed(t, s)
	recs := rows(0, 0, 3)
	recs[1].Data = nil
	err := s.Write(t.Context(), recs)
	if be, ok := errors.AsType[*connectors.BatchError](err); ok {
		for _, i := range slices.Sorted(maps.Keys(be.Failed)) {
			if i != 1 || !connectors.IsPermanent(be.Failed[i]) {
				t.Errorf("record %d beside a tombstone: %v", i, be.Failed[i])
			}
		}
	} else if err != nil {
		t.Errorf("a tombstone: %v", err)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}

// stops calls with an ended context: whatever they return, they do it promptly.
func (c *SinkCase) stops(t *testing.T) {
	config, _ := c.Target(t)
	s := c.open(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	within(t, "write and flush with an ended context", func() {
		for _, err := range []error{s.Write(ctx, rows(0, 0, 3)), s.Flush(ctx)} {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("with an ended context: %v", err)
			}
		}
	})
	closed(t, s)
	s = c.open(t, config)
	closed(t, s)
}

func soak(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("MILLRACE_SOAK")
	if text == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("MILLRACE_SOAK: %v", err)
	}
	return d
}
