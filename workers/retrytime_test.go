package workers

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/bus/table"
	"millrace/bus/vfs"
	"millrace/connectors"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
)

// TestRetryTimes runs a whole worker on a bus in memory under a virtual clock.
func TestRetryTimes(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		err        error
		want       []time.Duration // of the tries after the first; then the dead letter
		dead       bool
	}{
		{"backoff", `"onError":"skip"`, errors.New("down"), []time.Duration{15 * time.Second, 30 * time.Second, 45 * time.Second}, true},
		{
			"custom", `"onError":"skip","retry":{"strategy":"custom","attempts":5,"delay":"1m","maxDelay":"5m"}`, errors.New("down"),
			[]time.Duration{time.Minute, 3 * time.Minute, 7 * time.Minute, 12 * time.Minute, 17 * time.Minute},
			true,
		},
		{"permanent", `"onError":"skip"`, connectors.Permanent(errors.New("no")), nil, true},
		{
			"the target asks for a pause", `"onError":"skip","retry":{"strategy":"custom","attempts":1,"delay":"1s"}`,
			&connectors.RetryError{After: time.Hour, Err: errors.New("429")},
			[]time.Duration{time.Hour},
			true,
		},
		{
			"block", `"onError":"block","retry":{"strategy":"custom","attempts":1,"delay":"10s"}`, errors.New("down"),
			[]time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second},
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { retryTimes(t, c.rule, c.err, c.want, c.dead) })
		})
	}
}

func retryTimes(t *testing.T, rule string, fail error, want []time.Duration, dead bool) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := bus.Open("bus", bus.Options{FS: &vfs.Mem{}, ViewsFS: pebblevfs.NewMem(), CleanEvery: -1})
	must(err)
	var mu sync.Mutex
	var tries []time.Time
	sink := func(context.Context, struct{}, connectors.Env) (connectors.Sink, error) {
		return sinkFunc(func(recs []event.Record) error {
			mu.Lock()
			defer mu.Unlock()
			tries = append(tries, time.Now())
			return &connectors.BatchError{Failed: map[int]error{0: fail}}
		}), nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = b.CreateTopic(ctx, bus.Topic{Name: "in"})
	must(err)
	rules, err := table.Open[RuleDef](ctx, b, TopicRules, table.Options{})
	must(err)
	must(rules.Put(ctx, "r", RuleDef{Spec: []byte(`{"from":["in"],"to":[{"connector":"s"}],` + rule + `}`)}))
	conns, err := table.Open[ConnectorDef](ctx, b, bus.TopicConfig, table.Options{})
	must(err)
	must(conns.Put(ctx, "s", ConnectorDef{Config: map[string]string{"connector.class": "f-sink"}}))
	rt := New(Options{
		Client: b, DataDir: t.TempDir(), Random: func() float64 { return 0.5 },
		Plugins: []connectors.Plugin{{Name: "f", Sink: connectors.SinkOf(sink)}},
	})
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	_, err = b.Append(ctx, bus.Batch{Writes: []bus.Write{{Topic: "in", Events: []event.Event{{ID: "1", Source: "/t", Type: "t", Key: "k", Data: []byte("{}")}}}}})
	must(err)
	<-time.After(2 * time.Hour) // of the virtual clock
	synctest.Wait()
	mu.Lock()
	var got []time.Duration
	for _, at := range tries[1:] {
		got = append(got, at.Sub(tries[0]).Round(time.Second))
	}
	mu.Unlock()
	letters, err := DeadLetters(ctx, b, DeadTopic("r"), 0)
	if errors.Is(err, bus.ErrNoTopic) {
		err = nil
	}
	must(err)
	if !dead && len(got) > len(want) {
		got = got[:len(want)] // it goes on for ever
	}
	if !slices.Equal(got, want) || (len(letters) == 1) != dead {
		t.Errorf("tried after %v, want %v; %d dead letters", got, want, len(letters))
	}
	cancel()
	must(<-done)
	must(b.Close())
}

// sinkFunc is a sink that writes through.
type sinkFunc func([]event.Record) error

func (f sinkFunc) Write(_ context.Context, recs []event.Record) error { return f(recs) }
func (f sinkFunc) Flush(context.Context) error                        { return nil }
func (f sinkFunc) Close() error                                       { return nil }
