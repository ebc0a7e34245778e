package rpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"millrace/api/rpc"
	"millrace/bus"
	"millrace/bus/event"
	"millrace/bus/vfs"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
)

// lossy is a bus whose answers are lost: after each of the next few calls that
// were done, and before they are answered, all connections are cut.
type lossy struct {
	*bus.Bus
	cut func()

	mu    sync.Mutex
	lose  int            // answers still to be lost
	calls map[string]int // done, by method
	ids   map[string]int // of batches
}

func (l *lossy) done(method string) {
	l.mu.Lock()
	l.calls[method]++
	lose := l.lose > 0
	if lose {
		l.lose--
	}
	l.mu.Unlock()
	if lose {
		l.cut()
	}
}

func (l *lossy) loseNext(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = n
	l.calls, l.ids = map[string]int{}, map[string]int{}
}

func (l *lossy) count(method string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[method]
}

func (l *lossy) Append(ctx context.Context, b bus.Batch) ([]bus.Appended, error) {
	at, err := l.Bus.Append(ctx, b)
	l.mu.Lock()
	l.ids[b.ID]++
	l.mu.Unlock()
	l.done("Append")
	return at, err
}

func (l *lossy) CreateTopic(ctx context.Context, t bus.Topic) (bus.Topic, error) {
	defer l.done("CreateTopic")
	return l.Bus.CreateTopic(ctx, t)
}

func (l *lossy) DeleteTopic(ctx context.Context, name string, force bool) error {
	defer l.done("DeleteTopic")
	return l.Bus.DeleteTopic(ctx, name, force)
}

func (l *lossy) ResetGroup(ctx context.Context, group string, to []bus.Cursor) error {
	defer l.done("ResetGroup")
	return l.Bus.ResetGroup(ctx, group, to)
}

func (l *lossy) ForgetGroup(ctx context.Context, group string) error {
	defer l.done("ForgetGroup")
	return l.Bus.ForgetGroup(ctx, group)
}

func (l *lossy) Join(ctx context.Context, group string, slots []string) (bus.Member, error) {
	m, err := l.Bus.Join(ctx, group, slots)
	l.done("Join")
	return &lossyMember{m, l}, err
}

type lossyMember struct {
	bus.Member
	l *lossy
}

func (m *lossyMember) Slots(ctx context.Context) ([]bus.Slot, error) {
	defer m.l.done("Slots")
	return m.Member.Slots(ctx)
}

func openLossy(t *testing.T) (*lossy, *rpc.Client) {
	t.Helper()
	b, err := bus.Open("data", bus.Options{FS: new(vfs.Mem), ViewsFS: pebblevfs.NewMem(), Lease: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, 0)
	l := &lossy{Bus: b, cut: p.cut}
	l.loseNext(0)
	addr, stop := serve(t, l, rpc.Options{})
	t.Cleanup(func() {
		stop()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	p.to(addr)
	return l, dial(t, p.addr(), rpc.Options{})
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func ev(id string) event.Event {
	return event.Event{ID: id, Source: "/x", Type: "x", Data: []byte(id)}
}

// An append whose answer is lost, again and again, is stored exactly once.
// Invariant 2.
func TestLostAppendIsStoredOnce(t *testing.T) {
	t.Parallel()
	l, c := openLossy(t)
	_, err := c.CreateTopic(t.Context(), bus.Topic{Name: "orders"})
	ok(t, err)
	for _, id := range []string{"", "named"} {
		before, err := c.Bounds(t.Context(), "orders")
		ok(t, err)
		l.loseNext(3)
		at, err := c.Append(t.Context(), bus.Batch{ID: id, Writes: []bus.Write{{Topic: "orders", Events: []event.Event{ev("a"), ev("b")}}}})
		ok(t, err)
		check(t, "tries", l.count("Append"), 4)
		check(t, "batch ids", len(l.ids), 1)
		if l.ids[id] != 4 && id != "" || l.ids[""] != 0 {
			t.Fatalf("batch ids %v", l.ids)
		}
		first := before[0].Next
		check(t, "places", at, []bus.Appended{{Topic: "orders", Offset: first}, {Topic: "orders", Offset: first + 1}})
		after, err := c.Bounds(t.Context(), "orders")
		ok(t, err)
		check(t, "stored", after[0].Next-first, int64(2))
	}
}

// What changes something is done once, whatever is lost.
func TestLostChangesAreDoneOnce(t *testing.T) {
	t.Parallel()
	l, c := openLossy(t)
	ctx := t.Context()
	calls := []struct {
		method string
		call   func() error
	}{
		{"CreateTopic", func() error { _, err := c.CreateTopic(ctx, bus.Topic{Name: "orders"}); return err }},
		{"ResetGroup", func() error { return c.ResetGroup(ctx, "g", []bus.Cursor{{Topic: "orders"}}) }},
		{"ForgetGroup", func() error { return c.ForgetGroup(ctx, "g") }},
		{"DeleteTopic", func() error { return c.DeleteTopic(ctx, "orders", false) }},
		{"Join", func() error { _, err := c.Join(ctx, "h", []string{"a"}); return err }},
	}
	for _, x := range calls {
		l.loseNext(1)
		ok(t, x.call())
		check(t, x.method, l.count(x.method), 1)
	}
	// A second call is a second change.
	l.loseNext(0)
	if err := c.DeleteTopic(ctx, "orders", false); !errors.Is(err, bus.ErrNoTopic) {
		t.Fatalf("deleted twice: %v", err)
	}
}

// A worker that lost the answer that takes a slot away has not stopped it yet,
// so its next try must not say so. Invariant 11.
func TestLostSlotsAnswerIsGivenAgain(t *testing.T) {
	t.Parallel()
	l, c := openLossy(t)
	ctx := t.Context()
	first, err := c.Join(ctx, "g", []string{"a", "b"})
	ok(t, err)
	for {
		slots, err := first.Slots(ctx)
		ok(t, err)
		if len(slots) == 2 {
			break
		}
	}
	second, err := l.Bus.Join(ctx, "g", []string{"a", "b"})
	ok(t, err)
	l.loseNext(2)
	slots, err := first.Slots(ctx)
	ok(t, err)
	check(t, "slots left", len(slots), 1)
	check(t, "asked the bus", l.count("Slots"), 1)

	// The first has not called again: the other slot is still its own.
	info, err := c.Groups(ctx)
	ok(t, err)
	owner := map[string]int{}
	for _, s := range info[0].Slots {
		owner[s.Owner]++
	}
	check(t, "owners", len(owner), 1)

	l.loseNext(0)
	_, err = first.Slots(ctx)
	ok(t, err)
	for {
		got, err := second.Slots(ctx)
		ok(t, err)
		if len(got) == 1 {
			if got[0].Name == slots[0].Name {
				t.Fatal("both own the same slot")
			}
			return
		}
	}
}

// While Slots waits, lost connections neither prolong the wait nor ask anew: a
// lease would be waited away.
func TestSlotsWaitOutlivesConnections(t *testing.T) {
	t.Parallel()
	l, c := openLossy(t)
	m, err := c.Join(t.Context(), "g", []string{"a"})
	ok(t, err)
	for {
		slots, err := m.Slots(t.Context())
		ok(t, err)
		if len(slots) == 1 {
			break
		}
	}
	l.loseNext(0)
	start := time.Now()
	done := make(chan error, 1)
	go func() { _, err := m.Slots(t.Context()); done <- err }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if time.Since(start) < 800*time.Millisecond {
				l.cut()
			}
			continue
		case err := <-done:
			ok(t, err)
		}
		break
	}
	check(t, "asked the bus", l.count("Slots"), 1)
}

// The broker goes away and comes back: callers wait and go on.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	b, err := bus.Open("data", bus.Options{FS: new(vfs.Mem), ViewsFS: pebblevfs.NewMem()})
	ok(t, err)
	p := newProxy(t, 0)
	addr, stop := serve(t, b, rpc.Options{})
	p.to(addr)
	c := dial(t, p.addr(), rpc.Options{})
	_, err = c.CreateTopic(t.Context(), bus.Topic{Name: "orders"})
	ok(t, err)
	m, err := c.Join(t.Context(), "g", []string{"a"})
	ok(t, err)
	type answer struct {
		recs []event.Record
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		recs, err := c.Read(t.Context(), []bus.Cursor{{Topic: "orders"}}, bus.Limit{Wait: time.Minute})
		got <- answer{recs, err}
	}()
	stop()
	addr, stop = serve(t, b, rpc.Options{})
	p.to(addr)
	_, err = c.Append(t.Context(), bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: []event.Event{ev("a")}}}})
	ok(t, err)
	a := <-got
	ok(t, a.err)
	check(t, "read", len(a.recs), 1)
	// The new server knows nothing of the member.
	if _, err := m.Slots(t.Context()); !errors.Is(err, bus.ErrNoMember) {
		t.Fatalf("%v, want ErrNoMember", err)
	}
	ok(t, m.Leave(t.Context()))

	// Nobody answers: the call ends with its context, and an append says that
	// nothing is known.
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Bounds(ctx, "orders"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, want context.DeadlineExceeded", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Append(ctx, bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: []event.Event{ev("b")}}}})
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, bus.ErrUnknown) {
		t.Fatalf("%v, want ErrUnknown and context.DeadlineExceeded", err)
	}
	ok(t, b.Close())
}
