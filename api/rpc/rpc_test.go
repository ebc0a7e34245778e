package rpc_test

import (
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"millrace/api/rpc"
	"millrace/bus"
	"millrace/bus/bustest"
	"millrace/bus/vfs"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/grpc"
)

// TestClient runs the conformance suite of every bus.Client over a socket.
func TestClient(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Harness {
		t.Helper()
		return open(t, 0)
	})
}

// TestClientCut does so while connections are cut at random, in mid-call.
func TestClientCut(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Harness {
		t.Helper()
		seed := rand.Uint64() | 1
		t.Logf("proxy seed %d", seed)
		return open(t, seed)
	})
}

// open starts a bus in memory, a server, a proxy before it and a client.
func open(t *testing.T, seed uint64) bustest.Harness {
	t.Helper()
	o := bus.Options{
		FS: new(vfs.Mem), ViewsFS: pebblevfs.NewMem(),
		SegmentBytes: 1 << 20, MaxEvent: 1 << 20, SyncInterval: 20 * time.Millisecond,
		CleanEvery: 20 * time.Millisecond, Lease: 3 * time.Second,
	}
	p := newProxy(t, seed)
	var b *bus.Bus
	var stop func()
	start := func(t *testing.T) {
		t.Helper()
		var err error
		if b, err = bus.Open("data", o); err != nil {
			t.Fatal(err)
		}
		var addr string
		addr, stop = serve(t, b, rpc.Options{Token: "secret"})
		p.to(addr)
	}
	end := func(t *testing.T) {
		t.Helper()
		stop()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	start(t)
	t.Cleanup(func() { end(t) })
	c := dial(t, p.addr(), rpc.Options{Token: "secret"})
	return bustest.Harness{
		Client: c, Lease: o.Lease, MaxEvent: int(o.MaxEvent),
		Reopen: func(t *testing.T) bus.Client {
			t.Helper()
			end(t)
			start(t)
			return c
		},
	}
}

// serve serves c on a free port until stop.
func serve(t *testing.T, c bus.Client, o rpc.Options) (addr string, stop func()) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(rpc.ServerOptions(o)...)
	rpc.NewServer(c, o).Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(lis) }()
	return lis.Addr().String(), func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func dial(t *testing.T, addr string, o rpc.Options) *rpc.Client {
	t.Helper()
	c, err := rpc.Dial(t.Context(), addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
