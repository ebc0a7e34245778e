package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/bus/table"
	"millrace/connectors"
)

// BenchmarkPipeline takes events of 1 KB from a source through a sync topic, a
// router whose pattern drops half, and a set step into a sink; the events that
// the sink took and dropped are counted per second of CPU of the whole process.
func BenchmarkPipeline(b *testing.B) {
	bb, err := bus.Open(b.TempDir(), bus.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer bb.Close()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var taken atomic.Int64
	n := max(b.N, 2)
	src := &flood{n: n, pad: strings.Repeat("x", 900)}
	plugins := []connectors.Plugin{
		{Name: "flood", Source: connectors.SourceOf(func(context.Context, struct{}, connectors.Env) (connectors.Source, error) { return src, nil })},
		{Name: "drain", Sink: connectors.SinkOf(func(context.Context, struct{}, connectors.Env) (connectors.Sink, error) { return &drain{&taken}, nil })},
	}
	conns, err := table.Open[ConnectorDef](ctx, bb, bus.TopicConfig, table.Options{})
	if err != nil {
		b.Fatal(err)
	}
	rules, err := table.Open[RuleDef](ctx, bb, TopicRules, table.Options{})
	if err != nil {
		b.Fatal(err)
	}
	put := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	_, err = bb.CreateTopic(ctx, bus.Topic{Name: "in"})
	put(err)
	put(rules.Put(ctx, "half", RuleDef{Spec: json.RawMessage(
		`{"from":["in"],"when":{"data":{"even":[true]}},"transforms":[{"set":{"data.size":"'big'"}}],"to":[{"connector":"out"}]}`)}))
	put(conns.Put(ctx, "out", ConnectorDef{Config: map[string]string{"connector.class": "drain-sink"}}))
	put(conns.Put(ctx, "src", ConnectorDef{Config: map[string]string{"connector.class": "flood-source", "topic": "in"}}))
	rt := New(Options{Client: bb, Plugins: plugins, DataDir: b.TempDir()})
	done := make(chan error, 1)
	cpu := cpuTime()
	b.ResetTimer()
	go func() { done <- rt.Run(ctx) }()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for taken.Load() < int64(n/2) {
		<-tick.C
	}
	b.StopTimer()
	b.ReportMetric(float64(n)/(cpuTime()-cpu).Seconds(), "events/cpu-s")
	cancel()
	put(<-done)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type flood struct {
	n, next int
	pad     string
}

func (f *flood) Read(context.Context) (connectors.Produced, error) {
	if f.next >= f.n {
		return connectors.Produced{}, io.EOF
	}
	p := connectors.Produced{Events: make([]connectors.Out, 0, 1000)}
	for ; len(p.Events) < 1000 && f.next < f.n; f.next++ {
		p.Events = append(p.Events, connectors.Out{Event: event.Event{
			ID: strconv.Itoa(f.next), Source: "/flood", Type: "t", Key: "k",
			Data: fmt.Appendf(nil, `{"n":%d,"even":%v,"pad":"%s"}`, f.next, f.next%2 == 1, f.pad),
		}})
	}
	p.Positions = map[string]json.RawMessage{"n": json.RawMessage(strconv.Itoa(f.next))}
	return p, nil
}

func (f *flood) Close() error { return nil }

type drain struct{ n *atomic.Int64 }

func (d *drain) Write(_ context.Context, recs []event.Record) error {
	d.n.Add(int64(len(recs)))
	return nil
}
func (d *drain) Flush(context.Context) error { return nil }
func (d *drain) Close() error                { return nil }
