package elasticsearch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/bus/table"
	"millrace/connectors"
	"millrace/connectors/elasticsearch"
	"millrace/workers"
)

// TestRuntime runs the sink as users do: a real bus, a real worker, events,
// tombstones, poisoned ones in the dead letters, and their return.
func TestRuntime(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	poisoned := true
	d.item = func(doc document) (int, string) {
		if poisoned && (doc.id == "k3" || doc.id == "k4" && len(d.docs) == 0) {
			return 400, "mapper_parsing_exception"
		}
		return 0, ""
	}
	ctx := t.Context()
	b, err := bus.Open(t.TempDir(), bus.Options{CleanEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := b.CreateTopic(ctx, bus.Topic{Name: "orders", Queues: 2}); err != nil {
		t.Fatal(err)
	}
	wanted, err := table.Open[workers.ConnectorDef](ctx, b, bus.TopicConfig, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	publish(t, b, "k4", `{"n":0}`) // fails at first, and is older than what follows
	def := workers.ConnectorDef{State: workers.StateRunning, Created: time.Now(), Config: map[string]string{
		"connector.class": "elasticsearch-sink", "topics": "orders", "connection.url": d.server.URL, "errors.tolerance": "all", "errors.retry.timeout": "0",
	}}
	if err := wanted.Put(ctx, "es", def); err != nil {
		t.Fatal(err)
	}
	rt := workers.New(workers.Options{Client: b, Plugins: []connectors.Plugin{elasticsearch.Plugin()}, DataDir: t.TempDir()})
	running, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rt.Run(running) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	letters := func() int {
		list, err := workers.DeadLetters(ctx, b, workers.DeadTopic("es"), 0)
		if err != nil && !errors.Is(err, bus.ErrNoTopic) {
			t.Fatal(err)
		}
		return len(list)
	}
	until(t, "the first dead letter", func() bool { return letters() == 1 })
	for i := range 10 {
		publish(t, b, fmt.Sprint("k", i), fmt.Sprintf(`{"n":%d}`, i))
	}
	publish(t, b, "k1", "")
	publish(t, b, "k2", `{"n":22}`)
	want := map[document]string{}
	for i := range 10 {
		if i != 1 && i != 3 {
			want[document{"orders", fmt.Sprint("k", i)}] = fmt.Sprintf(`{"n":%d}`, i)
		}
	}
	want[document{"orders", "k2"}] = `{"n":22}`
	until(t, "documents and dead letters", func() bool { return letters() == 2 && maps.Equal(d.hold(), want) })

	d.mu.Lock()
	poisoned = false
	d.mu.Unlock()
	if n, err := workers.Redrive(ctx, b, workers.DeadTopic("es"), nil); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	// k4 keeps what is newer than the redriven event.
	want[document{"orders", "k3"}] = `{"n":3}`
	until(t, "the redriven document", func() bool { return letters() == 0 && maps.Equal(d.hold(), want) })
	publish(t, b, "k3", `{"n":33}`)
	want[document{"orders", "k3"}] = `{"n":33}`
	until(t, "what follows", func() bool { return maps.Equal(d.hold(), want) })
}

func publish(t *testing.T, b *bus.Bus, key, data string) {
	t.Helper()
	e := event.Event{ID: key + data, Source: "/test", Type: "order", Key: key}
	if data != "" {
		e.Data = []byte(data)
	}
	if _, err := b.Append(t.Context(), bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: []event.Event{e}}}}); err != nil {
		t.Fatal(err)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
