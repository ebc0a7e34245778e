package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/bus/table"
	"millrace/connectors"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a real bus with one or more workers on it.
type world struct {
	t       *testing.T
	dir     string
	bus     *bus.Bus
	client  bus.Client // what the workers use
	plugins []connectors.Plugin
	options Options
	busses  bus.Options
	probes  probes

	connectors *table.Table[ConnectorDef]
	rules      *table.Table[RuleDef]
	seq        int
}

// setup opens a bus in a temporary directory.
func setup(t *testing.T, change ...func(*bus.Options)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), busses: bus.Options{Lease: 3 * time.Second, CleanEvery: -1}}
	for _, f := range change {
		f(&w.busses)
	}
	w.probes.m = map[string]*probe{}
	w.open()
	t.Cleanup(func() {
		if err := w.bus.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	w.plugins = []connectors.Plugin{
		{Name: "keyed", Source: connectors.SourceOf(openKeyed)},
		{Name: "count", Source: connectors.SourceOf(openCounter)},
		{Name: "probe", Sink: connectors.SinkOf(w.probes.open)},
		{Name: "http", Sink: connectors.SinkOf(w.probes.openHTTP)},
	}
	return w
}

func (w *world) open() {
	w.t.Helper()
	b, err := bus.Open(w.dir, w.busses)
	w.must(err)
	w.bus, w.client = b, b
	ctx := w.t.Context()
	w.connectors, err = table.Open[ConnectorDef](ctx, b, bus.TopicConfig, table.Options{})
	w.must(err)
	w.rules, err = table.Open[RuleDef](ctx, b, TopicRules, table.Options{})
	w.must(err)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// work starts a worker; stop ends it.
func (w *world) work() (rt *Runtime, stop func()) {
	w.t.Helper()
	w.seq++
	o := w.options
	o.Client, o.Plugins, o.WorkerID, o.DataDir = w.client, w.plugins, fmt.Sprintf("w%d", w.seq), w.t.TempDir()
	if testing.Verbose() {
		o.Logger = slog.New(slog.NewTextHandler(testOut{w.t}, nil))
	}
	rt = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("worker: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return rt, stop
}

type testOut struct{ t *testing.T }

func (o testOut) Write(b []byte) (int, error) {
	o.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// topic makes a topic.
func (w *world) topic(name string, queues int) {
	w.t.Helper()
	_, err := w.bus.CreateTopic(w.t.Context(), bus.Topic{Name: name, Queues: queues})
	w.must(err)
}

// rule puts a rule whose start is where its topics end now, or given.
func (w *world) rule(name, spec string, starts map[string]int64) {
	w.t.Helper()
	w.must(w.rules.Put(w.t.Context(), name, RuleDef{Spec: json.RawMessage(spec), Created: time.Now(), Starts: starts}))
}

func (w *world) connector(name string, config map[string]string) {
	w.t.Helper()
	w.must(w.connectors.Put(w.t.Context(), name, ConnectorDef{Config: config, State: StateRunning, Created: time.Now()}))
}

// publish appends events with the given keys and the numbers from first on.
func (w *world) publish(topic string, first int, keys ...string) {
	w.t.Helper()
	events := make([]event.Event, len(keys))
	for i, k := range keys {
		events[i] = event.Event{ID: strconv.Itoa(first + i), Source: "/test", Type: "t", Key: k, Data: fmt.Appendf(nil, `{"n":%d}`, first+i)}
	}
	_, err := w.bus.Append(w.t.Context(), bus.Batch{Writes: []bus.Write{{Topic: topic, Events: events}}})
	w.must(err)
}

// all reads a topic's records, queue after queue; none when it does not exist.
func (w *world) all(topic string) (out []event.Record) {
	w.t.Helper()
	bounds, err := w.bus.Bounds(w.t.Context(), topic)
	if errors.Is(err, bus.ErrNoTopic) {
		return nil
	}
	w.must(err)
	for _, b := range bounds {
		for next := b.First; next < b.Next; {
			recs, err := w.bus.Read(w.t.Context(), []bus.Cursor{{Topic: topic, Queue: b.Queue, Next: next}}, bus.Limit{})
			w.must(err)
			if len(recs) == 0 {
				break
			}
			out = append(out, recs...)
			next = recs[len(recs)-1].Offset + 1
		}
	}
	return out
}

func ids(recs []event.Record) []string {
	out := make([]string, len(recs))
	for i := range recs {
		out[i] = recs[i].ID
	}
	return out
}

// upTo lists "first" … "last".
func upTo(first, last int) (out []string) {
	for i := first; i <= last; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

func keys(n int, of ...string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = of[i%len(of)]
	}
	return out
}

// until waits for a condition.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// arrives waits until a topic holds exactly the events with these ids, in order.
func (w *world) arrives(topic string, want []string) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d events in %s", len(want), topic), func() bool { return len(w.all(topic)) >= len(want) })
	if got := ids(w.all(topic)); !slices.Equal(got, want) {
		w.t.Fatalf("%s holds\n%v, want\n%v", topic, got, want)
	}
}

// task is a task's status, if there is one.
func (w *world) task(name string, id int) (s TaskStatus) {
	w.t.Helper()
	key := TaskStatusKey(name, id)
	recs, err := w.bus.Scan(w.t.Context(), bus.TopicStatus, key, "", 1)
	if errors.Is(err, bus.ErrNoTopic) {
		return s
	}
	w.must(err)
	if len(recs) > 0 && recs[0].Key == key {
		w.must(json.Unmarshal(recs[0].Data, &s))
	}
	return s
}

// letters are the dead letters of a topic, as "id step".
func (w *world) letters(topic string) []string {
	w.t.Helper()
	list, err := DeadLetters(w.t.Context(), w.bus, topic, 0)
	if errors.Is(err, bus.ErrNoTopic) {
		return []string{}
	}
	w.must(err)
	out := []string{}
	for _, l := range list {
		if l.Reason == "" || l.Origin == "" || l.Group == "" {
			w.t.Errorf("dead letter without reason, origin or group: %+v", l)
		}
		out = append(out, l.Record.ID+" "+l.Step)
	}
	return out
}

func (w *world) hasLetters(topic string, want ...string) {
	w.t.Helper()
	w.until("letters "+fmt.Sprint(want), func() bool { return len(w.letters(topic)) >= len(want) })
	if got := w.letters(topic); !slices.Equal(got, want) {
		w.t.Fatalf("dead letters %v, want %v", got, want)
	}
}

// counter is a source of numbered events, batch by batch; its position is the
// next number.
type counterConfig struct {
	Count int    `json:"count" doc:"events in all"`
	Batch int    `json:"batch" doc:"events per answer" default:"10"`
	Bad   int    `json:"bad" doc:"number that cannot be read; -1 = none" default:"-1"`
	To    string `json:"to" doc:"topic"`
	Key   string `json:"key.prefix" doc:"key prefix"`
	State bool   `json:"state" doc:"count in the state as well"`
}

type counter struct {
	c    counterConfig
	env  connectors.Env
	next int
}

func openCounter(ctx context.Context, c counterConfig, env connectors.Env) (connectors.Source, error) {
	s := &counter{c: c, env: env}
	if p := env.Positions["n"]; p != nil {
		if err := json.Unmarshal(p, &s.next); err != nil {
			return nil, err
		}
	}
	if c.State {
		v, _, err := env.State.Get(ctx, "n")
		if err != nil {
			return nil, err
		}
		if s.next > 0 && string(v) != strconv.Itoa(s.next) {
			return nil, connectors.Permanent(fmt.Errorf("state says %q, the position %d", v, s.next))
		}
	}
	return s, nil
}

func (s *counter) Read(context.Context) (connectors.Produced, error) {
	var p connectors.Produced
	for range s.c.Batch {
		if s.next >= s.c.Count {
			break
		}
		if s.next == s.c.Bad {
			p.Failed = append(p.Failed, connectors.BadInput{Origin: fmt.Sprint("line:", s.next), Raw: []byte("?"), Err: errors.New("unreadable")})
		} else {
			p.Events = append(p.Events, connectors.Out{Topic: s.c.To, Event: event.Event{
				ID: strconv.Itoa(s.next), Source: "/count", Type: "t", Key: s.c.Key, Data: fmt.Appendf(nil, `{"n":%d}`, s.next),
				Ext: []event.Attr{{Name: event.ExtHops, Value: "99"}},
			}})
		}
		s.next++
	}
	if len(p.Events)+len(p.Failed) == 0 {
		return p, io.EOF
	}
	p.Positions = map[string]json.RawMessage{"n": json.RawMessage(strconv.Itoa(s.next))}
	if s.c.State {
		s.env.State.Put("n", fmt.Append(nil, s.next))
	}
	return p, nil
}

func (s *counter) Close() error { return nil }
