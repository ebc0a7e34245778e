package s3_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/bus"
	"millrace/bus/table"
	"millrace/connectors"
	"millrace/connectors/s3"
	"millrace/workers"
)

// realBus runs the source as users do, with its state in a real bus: workers that
// stop and start read every version once, and see what changed meanwhile.
func realBus(b *bucket) {
	t, ctx := b.t, b.t.Context()
	dir := t.TempDir()
	log, err := bus.Open(dir, bus.Options{CleanEvery: -1, Lease: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	wanted, err := table.Open[workers.ConnectorDef](ctx, log, bus.TopicConfig, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]string{"connector.class": "s3-source", "format": "document"}
	for k, v := range b.config(map[string]any{"follow": true}) {
		if config[k] == "" {
			config[k] = fmt.Sprint(v)
		}
	}
	if err := wanted.Put(ctx, "s3", workers.ConnectorDef{State: workers.StateRunning, Created: time.Now(), Config: config}); err != nil {
		t.Fatal(err)
	}
	work := func() (stop func()) {
		running, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		rt := workers.New(workers.Options{Client: log, Plugins: []connectors.Plugin{s3.Plugin()}, DataDir: t.TempDir()})
		go func() { done <- rt.Run(running) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	count := func() map[string]int {
		counts := map[string]int{}
		for next := int64(0); ; {
			wait, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			recs, err := log.Read(wait, []bus.Cursor{{Topic: "objects", Next: next}}, bus.Limit{})
			cancel()
			if len(recs) == 0 {
				if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, bus.ErrNoTopic) {
					t.Fatal(err)
				}
				return counts
			}
			for i := range recs {
				counts[strings.TrimPrefix(recs[i].Type, "millrace.s3.")+" "+recs[i].Key+" "+string(recs[i].Data)]++
				next = recs[i].Offset + 1
			}
		}
	}
	want := map[string]int{}
	settle := func(what string) {
		deadline := time.Now().Add(30 * time.Second)
		for got := count(); !maps.Equal(got, want); got = count() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v\nwanted %v", what, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
			}
		}
	}
	// Keys around every byte that an order of keys may get wrong.
	for i, key := range []string{"a-b", "a.b", "a/b", "a/c/d", "a b", "ab", "A", "ä", "日本", "a!b", "a~"} {
		b.put(key, strconv.Itoa(i))
		want[fmt.Sprintf("object %s %d", key, i)] = 1
	}
	stop := work()
	settle("the first objects")
	b.put("a.b", "changed")
	want["object a.b changed"] = 1
	b.remove("ä")
	want["deleted ä "] = 1
	settle("while it runs")
	stop()
	b.put("0", "earlier")
	want["object 0 earlier"] = 1
	b.remove("a/c/d")
	want["deleted a/c/d "] = 1
	stop = work()
	settle("while it was stopped")
	pause(ctx, 200*time.Millisecond) // several listings more
	settle("nothing more")
	stop()
}
