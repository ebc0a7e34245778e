package table_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/bus/table"
	"millrace/bus/vfs"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
)

type entry struct {
	N    int      `json:"n"`
	Tags []string `json:"tags,omitempty"`
}

func openBus(t *testing.T) *bus.Bus {
	t.Helper()
	b, err := bus.Open("data", bus.Options{FS: new(vfs.Mem), ViewsFS: pebblevfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func open(t *testing.T, c bus.Client, o table.Options) *table.Table[entry] {
	t.Helper()
	tb, err := table.Open[entry](t.Context(), c, "things", o)
	if err != nil {
		t.Fatal(err)
	}
	return tb
}

// run follows changes until the test ends.
func run(t *testing.T, tb *table.Table[entry]) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tb.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
}

// until waits for changes until cond holds.
func until(t *testing.T, tb *table.Table[entry], cond func(map[string]entry) bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		changed := tb.Changed()
		if cond(tb.Snapshot()) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("in vain; the table is %v", tb.Snapshot())
		}
	}
}

func check(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReadsItsOwnWrites(t *testing.T) {
	t.Parallel()
	b := openBus(t)
	tb := open(t, b, table.Options{})
	ctx := t.Context()
	before := tb.Snapshot()
	tags := []string{"x"}
	ok(t, tb.Put(ctx, "b", entry{N: 2, Tags: tags}))
	ok(t, tb.Put(ctx, "a", entry{N: 1}))
	tags[0] = "changed by the caller"
	got, found := tb.Get("b")
	check(t, "get", got, entry{N: 2, Tags: []string{"x"}})
	check(t, "found", found, true)
	one := tb.Snapshot()
	ok(t, tb.Put(ctx, "a", entry{N: 3}))
	ok(t, tb.Delete(ctx, "b"))
	ok(t, tb.Delete(ctx, "never"))
	check(t, "after", tb.Snapshot(), map[string]entry{"a": {N: 3}})
	check(t, "a snapshot stays as it was", one, map[string]entry{"a": {N: 1}, "b": {N: 2, Tags: []string{"x"}}})
	check(t, "the first too", len(before), 0)
	if _, found := tb.Get("b"); found {
		t.Fatal("b is still there")
	}
	ok(t, tb.Put(ctx, "c", entry{N: 4}))
	var keys []string
	for k := range tb.All() {
		keys = append(keys, k)
	}
	check(t, "by key", keys, []string{"a", "c"})
	check(t, "opened anew", open(t, b, table.Options{MustExist: true}).Snapshot(), tb.Snapshot())
	check(t, "entries", tb.Stats(), table.Stats{Entries: 2, Scans: 1})
}

func TestEventForm(t *testing.T) {
	t.Parallel()
	b := openBus(t)
	tb := open(t, b, table.Options{})
	ok(t, tb.Put(t.Context(), "k", entry{N: 1}))
	ok(t, tb.Delete(t.Context(), "k"))
	topic, err := b.Topic(t.Context(), "things")
	ok(t, err)
	check(t, "topic", []any{topic.Type, topic.Queues}, []any{bus.Compacted, 1})
	ok(t, tb.Put(t.Context(), "k", entry{N: 2}))
	recs, err := b.Scan(t.Context(), "things", "", "", 0)
	ok(t, err)
	e := recs[0].Event
	if e.ID == "" {
		t.Fatal("no id")
	}
	e.ID = ""
	check(t, "event", e, event.Event{
		Source: "/tables/things", Type: table.TypePut, Key: "k", ContentType: "application/json", Data: []byte(`{"n":2}`),
	})
}

func TestFollowsOthers(t *testing.T) {
	t.Parallel()
	b := openBus(t)
	writer := open(t, b, table.Options{})
	reader := open(t, b, table.Options{})
	run(t, reader)
	ctx := t.Context()
	ok(t, writer.Put(ctx, "a", entry{N: 1}))
	until(t, reader, func(m map[string]entry) bool { return m["a"].N == 1 })
	ok(t, writer.Put(ctx, "b", entry{N: 2}))
	ok(t, writer.Delete(ctx, "a"))
	until(t, reader, func(m map[string]entry) bool { return len(m) == 1 && m["b"].N == 2 })
	ok(t, writer.Delete(ctx, "b"))
	until(t, reader, func(m map[string]entry) bool { return len(m) == 0 })
}

func TestManyPages(t *testing.T) {
	t.Parallel()
	b := openBus(t)
	tb := open(t, b, table.Options{})
	w := bus.Write{Topic: "things"}
	want := map[string]entry{}
	for i := range 2500 {
		k := fmt.Sprintf("key-%d", i)
		want[k] = entry{N: i}
		w.Events = append(w.Events, event.Event{ID: k, Source: "/x", Type: "x", Key: k, Data: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	_, err := b.Append(t.Context(), bus.Batch{Writes: []bus.Write{w}})
	ok(t, err)
	run(t, tb)
	until(t, tb, func(m map[string]entry) bool { return len(m) == 2500 })
	check(t, "entries", tb.Snapshot(), want)
}

func TestMalformedIsReportedNotFatal(t *testing.T) {
	t.Parallel()
	b := openBus(t)
	var log bytes.Buffer
	tb := open(t, b, table.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ok(t, tb.Put(t.Context(), "good", entry{N: 1}))
	ok(t, tb.Put(t.Context(), "bad", entry{N: 2}))
	_, err := b.Append(t.Context(), bus.Batch{Writes: []bus.Write{{Topic: "things", Events: []event.Event{
		{ID: "1", Source: "/x", Type: "x", Key: "bad", Data: []byte(`{"n":"two"}`)},
	}}}})
	ok(t, err)
	run(t, tb)
	until(t, tb, func(m map[string]entry) bool { return len(m) == 1 })
	s := tb.Stats()
	check(t, "stats", []int{s.Entries, s.Malformed}, []int{1, 1})
	ok(t, open(t, b, table.Options{}).Put(t.Context(), "other", entry{N: 3})) // one more scan
	until(t, tb, func(m map[string]entry) bool { return len(m) == 2 })
	if n := strings.Count(log.String(), "key=bad"); n != 1 || !strings.Contains(log.String(), "level=WARN") {
		t.Fatalf("reported %d times:\n%s", n, log.String())
	}
	ok(t, tb.Put(t.Context(), "bad", entry{N: 4}))
	check(t, "mended", tb.Snapshot(), map[string]entry{"good": {N: 1}, "bad": {N: 4}, "other": {N: 3}})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := openBus(t)
	ctx := t.Context()
	if _, err := table.Open[entry](ctx, b, "things", table.Options{MustExist: true}); !errors.Is(err, bus.ErrNoTopic) {
		t.Fatalf("missing: %v", err)
	}
	if _, err := b.CreateTopic(ctx, bus.Topic{Name: "plain"}); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Open[entry](ctx, b, "plain", table.Options{}); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("not compacted: %v", err)
	}
	tb := open(t, b, table.Options{})
	if err := tb.Put(ctx, "", entry{}); !errors.Is(err, bus.ErrInvalid) {
		t.Fatalf("empty key: %v", err)
	}
	odd, err := table.Open[func()](ctx, b, "things", table.Options{})
	ok(t, err)
	if err := odd.Put(ctx, "k", func() {}); err == nil {
		t.Fatal("a value without JSON was taken")
	}
	ok(t, b.DeleteTopic(ctx, "things", true))
	if err := tb.Run(ctx); !errors.Is(err, bus.ErrNoTopic) {
		t.Fatalf("topic gone: %v", err)
	}
	if err := tb.Put(ctx, "k", entry{}); !errors.Is(err, bus.ErrNoTopic) {
		t.Fatalf("topic gone: %v", err)
	}
}

// Whatever writers of several tables do at once, all tables come to what the
// topic holds, and each sees its own last write of a key nobody else writes.
func TestConcurrentWriters(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	b := openBus(t)
	tables := []*table.Table[entry]{open(t, b, table.Options{}), open(t, b, table.Options{})}
	for _, tb := range tables {
		run(t, tb)
	}
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			tb := tables[w%2]
			mine := fmt.Sprintf("mine-%d", w)
			for i := range 100 {
				shared := fmt.Sprintf("shared-%d", rng.IntN(4))
				var err error
				if rng.IntN(3) == 0 {
					err = tb.Delete(t.Context(), shared)
				} else {
					err = tb.Put(t.Context(), shared, entry{N: i})
				}
				if err == nil && rng.IntN(4) > 0 {
					err = tb.Put(t.Context(), mine, entry{N: i})
					if got, found := tb.Get(mine); err == nil && (!found || got.N != i) {
						err = fmt.Errorf("%s is %v after putting %d", mine, got, i)
					}
				} else if err == nil {
					err = tb.Delete(t.Context(), mine)
					if got, found := tb.Get(mine); err == nil && found {
						err = fmt.Errorf("%s is %v after deleting it", mine, got)
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	want := open(t, b, table.Options{}).Snapshot()
	for _, tb := range tables {
		until(t, tb, func(m map[string]entry) bool {
			return maps.EqualFunc(m, want, func(a, b entry) bool { return a.N == b.N })
		})
	}
	if len(want) == 0 || slices.Contains(slices.Collect(maps.Keys(want)), "") {
		t.Fatalf("odd entries: %v", want)
	}
}
