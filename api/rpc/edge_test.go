package rpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/api/rpc"
	"millrace/bus"
	"millrace/bus/event"
	"millrace/bus/vfs"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func openBus(t *testing.T) *bus.Bus {
	t.Helper()
	b, err := bus.Open("data", bus.Options{FS: new(vfs.Mem), ViewsFS: pebblevfs.NewMem(), Lease: 3 * time.Second})
	ok(t, err)
	t.Cleanup(func() { ok(t, b.Close()) })
	return b
}

// connect serves c and returns a client of it.
func connect(t *testing.T, c bus.Client, server, client rpc.Options) *rpc.Client {
	t.Helper()
	addr, stop := serve(t, c, server)
	t.Cleanup(stop)
	return dial(t, addr, client)
}

func TestToken(t *testing.T) {
	t.Parallel()
	addr, stop := serve(t, openBus(t), rpc.Options{Token: "secret"})
	t.Cleanup(stop)
	for _, wrong := range []string{"", "secre", "secret2", "Secret"} {
		if _, err := rpc.Dial(t.Context(), addr, rpc.Options{Token: wrong}); !errors.Is(err, rpc.ErrToken) {
			t.Fatalf("token %q: %v, want ErrToken", wrong, err)
		}
	}
	_, err := dial(t, addr, rpc.Options{Token: "secret"}).Topics(t.Context())
	ok(t, err)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	addr, stop := serve(t, openBus(t), rpc.Options{TLS: &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}})
	t.Cleanup(stop)
	c := dial(t, addr, rpc.Options{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	_, err := c.Topics(t.Context())
	ok(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := rpc.Dial(ctx, addr, rpc.Options{TLS: &tls.Config{MinVersion: tls.VersionTLS12}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a certificate nobody vouches for: %v", err)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	b := openBus(t)
	addr, stop := serve(t, b, rpc.Options{})
	t.Cleanup(stop)
	c, err := rpc.Dial(t.Context(), addr, rpc.Options{})
	ok(t, err)
	_, err = c.CreateTopic(t.Context(), bus.Topic{Name: "orders"})
	ok(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := c.Read(t.Context(), []bus.Cursor{{Topic: "orders"}}, bus.Limit{Wait: time.Minute})
		got <- err
	}()
	ok(t, c.Close())
	if err := <-got; !errors.Is(err, bus.ErrClosed) {
		t.Fatalf("the waiting: %v, want ErrClosed", err)
	}
	if _, err := c.Topics(t.Context()); !errors.Is(err, bus.ErrClosed) {
		t.Fatalf("the next: %v, want ErrClosed", err)
	}
}

// failing answers Topics with a given error.
type failing struct {
	bus.Client
	err error
}

func (f *failing) Topics(context.Context) ([]bus.Topic, error) { return nil, f.err }

func TestErrorsKeepTheirKind(t *testing.T) {
	t.Parallel()
	f := &failing{}
	c := connect(t, f, rpc.Options{}, rpc.Options{})
	for _, kind := range []error{
		bus.ErrNoTopic, bus.ErrConflict, bus.ErrInUse, bus.ErrInvalid, bus.ErrFenced, bus.ErrNoMember,
		bus.ErrTooLarge, bus.ErrUnsupported, bus.ErrCorrupt, bus.ErrFull, bus.ErrUnknown,
	} {
		full := &bus.Error{Kind: kind, Thing: "topic ordérs", Field: "queues", Msg: "is\n\"odd\": mend it"}
		for _, want := range []error{full, fmt.Errorf("table x: %w", full), fmt.Errorf("append: %w", kind), kind} {
			f.err = want
			_, err := c.Topics(t.Context())
			if !errors.Is(err, kind) || err.Error() != want.Error() {
				t.Fatalf("%v arrives as %v", want, err)
			}
			e, isBus := errors.AsType[*bus.Error](err)
			if _, was := errors.AsType[*bus.Error](want); isBus != was {
				t.Fatalf("%v: *bus.Error %t, was %t", want, isBus, was)
			}
			if isBus {
				check(t, "fields", []string{e.Thing, e.Field, e.Msg}, []string{full.Thing, full.Field, full.Msg})
			}
			for _, other := range []error{bus.ErrNoTopic, bus.ErrFenced, bus.ErrUnknown} {
				if !errors.Is(kind, other) && errors.Is(err, other) {
					t.Fatalf("%v arrives as %v as well", want, other)
				}
			}
		}
	}
	f.err = errors.New("disk on fire")
	_, err := c.Topics(t.Context())
	if err == nil || err.Error() != "disk on fire" {
		t.Fatalf("a fault of the machine arrives as %v", err)
	}
}

func TestMessageTooLarge(t *testing.T) {
	t.Parallel()
	big := ev("big")
	big.Data = bytes.Repeat([]byte("x"), 2<<20)
	for name, o := range map[string][2]rpc.Options{
		"client": {{}, {MaxMessage: 1 << 20}},
		"server": {{MaxMessage: 1 << 20}, {}},
	} {
		c := connect(t, openBus(t), o[0], o[1])
		_, err := c.CreateTopic(t.Context(), bus.Topic{Name: "orders"})
		ok(t, err)
		_, err = c.Append(t.Context(), bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: []event.Event{big}}}})
		if !errors.Is(err, bus.ErrTooLarge) {
			t.Fatalf("%s: %v, want ErrTooLarge", name, err)
		}
		_, err = c.Append(t.Context(), bus.Batch{Writes: []bus.Write{{Topic: "orders", Events: []event.Event{ev("small")}}}})
		ok(t, err)
	}
}

// Answers are cut at the size of a message. Invariant 10.
func TestAnswersAreCut(t *testing.T) {
	t.Parallel()
	b := openBus(t)
	small := rpc.Options{MaxMessage: 1 << 20}
	c := connect(t, b, small, small)
	_, err := c.CreateTopic(t.Context(), bus.Topic{Name: "latest", Type: bus.Compacted})
	ok(t, err)
	const n = 12
	for i := range n {
		e := ev(strconv.Itoa(i))
		e.Key = fmt.Sprintf("k%02d", i)
		e.Data = bytes.Repeat([]byte{byte(i)}, 200<<10)
		_, err := c.Append(t.Context(), bus.Batch{Writes: []bus.Write{{Topic: "latest", Events: []event.Event{e}}}})
		ok(t, err)
	}
	reads := 0
	for next := int64(0); next < n; reads++ {
		recs, err := c.Read(t.Context(), []bus.Cursor{{Topic: "latest", Next: next}}, bus.Limit{Bytes: 64 << 20})
		ok(t, err)
		if len(recs) == 0 || recs[0].Offset != next {
			t.Fatalf("read from %d: %d records", next, len(recs))
		}
		next += int64(len(recs))
	}
	if reads < 4 {
		t.Fatalf("%d reads for %d bytes in messages of %d", reads, n*200<<10, small.MaxMessage)
	}
	recs, err := c.Scan(t.Context(), "latest", "", "", 0)
	ok(t, err)
	check(t, "scan", len(recs), n)
	recs, err = c.Scan(t.Context(), "latest", "", "k03", 7)
	ok(t, err)
	check(t, "scan with a limit", []any{len(recs), recs[0].Key, recs[6].Key}, []any{7, "k04", "k10"})
}

// A server whose answers make no sense is no reason to wait forever.
func TestBrokenAnswersEnd(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	g := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.Internal, "odd")
	}))
	done := make(chan error, 1)
	go func() { done <- g.Serve(lis) }()
	t.Cleanup(func() {
		g.Stop()
		ok(t, <-done)
	})
	if _, err := rpc.Dial(t.Context(), lis.Addr().String(), rpc.Options{}); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Fatalf("%v, want the server's words", err)
	}
}

// slow is a member whose answers take a while and name a fixed end.
type slow struct {
	bus.Client
	until time.Time
}

func (s *slow) Join(context.Context, string, []string) (bus.Member, error) { return s, nil }
func (s *slow) Leave(context.Context) error                                { return nil }
func (s *slow) Slots(ctx context.Context) ([]bus.Slot, error) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
	s.until = time.Now().Add(10 * time.Second)
	return []bus.Slot{{Name: "a", Epoch: 1, Until: s.until}}, nil
}

// An owner's Until is never later than the one the server knows. Invariant 11.
func TestUntilIsNeverLater(t *testing.T) {
	t.Parallel()
	s := &slow{}
	c := connect(t, s, rpc.Options{}, rpc.Options{})
	m, err := c.Join(t.Context(), "g", nil)
	ok(t, err)
	for range 5 {
		slots, err := m.Slots(t.Context())
		ok(t, err)
		if early := s.until.Sub(slots[0].Until); early < 0 || early > 5*time.Second {
			t.Fatalf("until is %s before the server's", early)
		}
	}
}
