package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
)

// flaky is a Client whose appends fail: before they are stored, or after, so that
// only the answer is lost.
type flaky struct {
	bus.Client
	mu  sync.Mutex
	rng *rand.Rand
	off bool
}

func (f *flaky) Append(ctx context.Context, b bus.Batch) ([]bus.Appended, error) {
	f.mu.Lock()
	n := f.rng.IntN(10)
	if f.off || b.ID == "" {
		n = 10
	}
	f.mu.Unlock()
	switch n {
	case 0:
		return nil, fmt.Errorf("append: %w", bus.ErrFull)
	case 1:
		return nil, errors.New("connection refused")
	case 2, 3:
		if _, err := f.Client.Append(ctx, b); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("append: %w", bus.ErrUnknown)
	}
	return f.Client.Append(ctx, b)
}

// soak is how long a random test runs: MILLRACE_SOAK, by default 5 s.
func soak(t *testing.T) time.Duration {
	t.Helper()
	if s := os.Getenv("MILLRACE_SOAK"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("MILLRACE_SOAK: %v", err)
		}
		return d
	}
	return 5 * time.Second
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("MILLRACE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("MILLRACE_SEED: %v", err)
		}
	}
	t.Logf("MILLRACE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestExactlyOnceOverKills lets a source, rules and a sink run while workers are
// stopped at any moment and the answers to appends get lost.
func TestExactlyOnceOverKills(t *testing.T) {
	t.Parallel()
	w := setup(t)
	rng := seeded(t)
	f := &flaky{Client: w.bus, rng: rand.New(rand.NewPCG(rng.Uint64(), 1))}
	w.client = f
	w.topic("numbers", 3)
	const n = 4000
	w.connector("c", map[string]string{
		"connector.class": "keyed-source", "topic": "numbers", "count": strconv.Itoa(n), "batch": "25", "state": "true",
	})
	w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "keep": "true", "flush.interval": "5ms", "tasks.max": "2"})
	w.rule("direct", `{"from":["numbers"],"to":[{"topic":"a"}]}`, nil)
	w.rule("shaped", `{"from":["numbers"],"where":"data.n % 2 == 0","transforms":[{"set":{"data.x":"1"}}],"to":[{"topic":"b"},{"connector":"s"}]}`, nil)
	done := func() bool {
		return len(w.all("numbers")) >= n && len(w.all("a")) >= n && len(w.all("b")) >= n/2 && len(w.probes.get("s").got()) >= n/2
	}
	deadline := time.Now().Add(soak(t))
	kills := 0
	for ; time.Now().Before(deadline) && !done(); kills++ {
		_, stop := w.work()
		idle := time.NewTimer(time.Duration(20+rng.IntN(300)) * time.Millisecond)
		<-idle.C
		stop()
	}
	f.mu.Lock()
	f.off = true
	f.mu.Unlock()
	w.work()
	w.until("everything has arrived", done)
	t.Logf("%d workers were stopped", kills)

	check := func(name string, recs []event.Record, want int, order bool) {
		seen, last := map[int]bool{}, map[string]int{}
		for _, r := range recs {
			i := number(r)
			if seen[i] {
				t.Fatalf("%s: event %d twice", name, i)
			}
			seen[i] = true
			if l, ok := last[r.Key]; order && ok && l >= i {
				t.Fatalf("%s: key %s: %d after %d", name, r.Key, i, l)
			}
			last[r.Key] = i
		}
		if len(seen) != want {
			t.Fatalf("%s: %d events, want %d", name, len(seen), want)
		}
	}
	check("numbers", w.all("numbers"), n, true)
	check("a", w.all("a"), n, true)
	check("b", w.all("b"), n/2, true)
	p := w.probes.get("s")
	p.set(func(p *probe) { check("sink", p.flushed, n/2, true) })
}

// keyedSource is a counter whose events have keys.
func openKeyed(ctx context.Context, c counterConfig, env connectors.Env) (connectors.Source, error) {
	s, err := openCounter(ctx, c, env)
	if err != nil {
		return nil, err
	}
	return &keyed{s.(*counter)}, nil
}

type keyed struct{ *counter }

func (k *keyed) Read(ctx context.Context) (connectors.Produced, error) {
	p, err := k.counter.Read(ctx)
	for i := range p.Events {
		e := &p.Events[i].Event
		e.Key = "k" + strconv.Itoa(int(e.ID[len(e.ID)-1]-'0'))
	}
	return p, err
}

// gated is a source that produces one event for each ack, as a queue with one
// message in flight would.
type gated struct {
	g    *gate
	next int
}

type gate struct {
	mu    sync.Mutex
	acked []string
	ready chan struct{}
}

func (g *gate) open(_ context.Context, _ struct{}, env connectors.Env) (connectors.Source, error) {
	s := &gated{g: g}
	if p := env.Positions["n"]; p != nil {
		return s, json.Unmarshal(p, &s.next)
	}
	return s, nil
}

func (s *gated) Read(ctx context.Context) (connectors.Produced, error) {
	if s.next == 5 {
		return connectors.Produced{}, io.EOF
	}
	select {
	case <-s.g.ready:
	case <-ctx.Done():
		return connectors.Produced{}, ctx.Err()
	}
	s.next++
	return connectors.Produced{
		Events:    []connectors.Out{{Topic: "q", Event: event.Event{ID: strconv.Itoa(s.next), Source: "/q", Type: "t", Data: []byte("{}")}}},
		Positions: map[string]json.RawMessage{"n": json.RawMessage(strconv.Itoa(s.next))},
	}, nil
}

func (s *gated) Ack(_ context.Context, p map[string]json.RawMessage) error {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	s.g.acked = append(s.g.acked, string(p["n"]))
	s.g.ready <- struct{}{}
	return nil
}

func (s *gated) Close() error { return nil }

func TestAckFollowsTheAppend(t *testing.T) {
	t.Parallel()
	w := setup(t)
	g := &gate{ready: make(chan struct{}, 1)}
	g.ready <- struct{}{}
	w.plugins = append(w.plugins, connectors.Plugin{Name: "gated", Source: connectors.SourceOf(g.open)})
	w.connector("q", map[string]string{"connector.class": "gated-source"})
	w.work()
	w.arrives("q", upTo(1, 5))
	w.until("all acks", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return slices.Equal(g.acked, upTo(1, 5)) })
}

func TestTwoWorkersShareAndTakeOver(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 4)
	w.rule("r", `{"from":["in"],"transforms":[{"set":{"data.x":"1"}}],"to":[{"topic":"out"}]}`, nil)
	one, stopOne := w.work()
	two, _ := w.work()
	tasks := func(rt *Runtime) (n int) {
		for _, s := range rt.Stats() {
			if s.Kind == "rule" {
				n++
			}
		}
		return n
	}
	w.until("each has half", func() bool { return tasks(one) == 2 && tasks(two) == 2 })
	w.publish("in", 0, keys(100, "a", "b", "c", "d", "e", "f", "g")...)
	w.until("100 events", func() bool { return len(w.all("out")) == 100 })
	stopOne()
	w.publish("in", 100, keys(100, "a", "b", "c", "d", "e", "f", "g")...)
	w.until("200 events", func() bool { return len(w.all("out")) == 200 })
	w.until("the other has all", func() bool { return tasks(two) == 4 })
	seen := map[int]bool{}
	for _, r := range w.all("out") {
		if seen[number(r)] {
			t.Fatalf("event %d twice", number(r))
		}
		seen[number(r)] = true
	}
	w.until("all statuses are the other's", func() bool {
		for i := range 4 {
			if s := w.task("rule-r", i); s.WorkerID != two.o.WorkerID || s.State != StateRunning {
				return false
			}
		}
		return true
	})
}

// deaf is a Client whose members never hear of the end of their lease.
type deaf struct {
	bus.Client
	mu    sync.Mutex
	stuck bool
}

type deafMember struct {
	bus.Member
	c *deaf
}

func (c *deaf) Join(ctx context.Context, g string, slots []string) (bus.Member, error) {
	m, err := c.Client.Join(ctx, g, slots)
	return &deafMember{m, c}, err
}

func (m *deafMember) Slots(ctx context.Context) ([]bus.Slot, error) {
	m.c.mu.Lock()
	stuck := m.c.stuck
	m.c.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.Member.Slots(ctx)
}

func TestOwnerWithoutLeaseStops(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	d := &deaf{Client: w.bus}
	w.client = d
	w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "topics": "in", "flush.interval": "5ms"})
	one, _ := w.work()
	w.publish("in", 0, "k")
	w.holds("s", upTo(0, 0))
	d.mu.Lock()
	d.stuck = true
	d.mu.Unlock()
	w.client = w.bus
	two, _ := w.work()
	w.until("the other has it", func() bool {
		s := w.task("s", 0)
		return s.WorkerID == two.o.WorkerID && s.State == StateRunning
	})
	w.publish("in", 1, keys(5, "k")...)
	w.holds("s", upTo(0, 5)) // by one of them, once
	for _, u := range one.runningUnits() {
		u.mu.Lock()
		for _, task := range u.tasks {
			if time.Now().Before(*task.until.Load()) {
				t.Errorf("%s may still write", u.spec.Key)
			}
		}
		u.mu.Unlock()
	}
}

func TestRestartOfOneTask(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 2)
	config := map[string]string{"connector.class": "probe-sink", "id": "s", "topics": "in", "tasks.max": "2"}
	w.connector("s", config)
	w.work()
	p := w.probes.get("s")
	opened := func() int { p.mu.Lock(); defer p.mu.Unlock(); return p.opened }
	w.until("two tasks", func() bool { return opened() == 2 })
	put := func(restarts map[string]int, state string) {
		w.must(w.connectors.Put(t.Context(), "s", ConnectorDef{Config: config, State: state, Restarts: restarts}))
	}
	put(map[string]int{"1": 1}, StateRunning)
	w.until("one task again", func() bool { return opened() == 3 })
	put(map[string]int{"1": 1, "": 1}, StateRunning)
	w.until("both again", func() bool { return opened() == 5 })
	put(map[string]int{"1": 1, "": 1}, StatePaused)
	w.until("PAUSED", func() bool { return w.task("s", 0).State == StatePaused && w.task("s", 1).State == StatePaused })
	put(map[string]int{"1": 1, "": 1}, StateStopped)
	w.until("no tasks", func() bool { return w.task("s", 0).State == "" && w.task("s", 1).State == "" })
	put(map[string]int{"1": 1, "": 1}, StateRunning)
	w.until("both run", func() bool { return opened() == 7 })
}

func TestPanicAndOpenErrorShowInStatus(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var mu sync.Mutex
	tries := 0
	w.plugins = append(w.plugins, connectors.Plugin{Name: "wild", Source: connectors.SourceOf(
		func(_ context.Context, _ struct{}, _ connectors.Env) (connectors.Source, error) {
			mu.Lock()
			defer mu.Unlock()
			if tries++; tries == 1 {
				panic("out of its mind")
			}
			return nil, errors.New("cannot connect")
		})})
	w.connector("wild", map[string]string{"connector.class": "wild-source"})
	w.connector("c", map[string]string{"connector.class": "count-source", "topic": "numbers", "count": "5"})
	w.work()
	w.until("the panic", func() bool {
		s := w.task("wild", 0)
		return s.State == StateFailed && strings.Contains(s.Trace, "out of its mind")
	})
	w.until("the next error", func() bool { return strings.Contains(w.task("wild", 0).Trace, "cannot connect") })
	w.arrives("numbers", upTo(0, 4))
}
