package rpc_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands between client and server and can cut what passes.
type proxy struct {
	lis net.Listener
	rng *rand.Rand // nil = calm; guarded by mu
	wg  sync.WaitGroup

	mu      sync.Mutex
	backend string
	conns   map[net.Conn]struct{}
	closed  bool
	cuts    int
}

// newProxy listens on a free port; seed 0 makes it calm, any other cuts every
// connection sooner or later, in mid-call as often as not.
func newProxy(t *testing.T, seed uint64) *proxy {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{lis: lis, conns: map[net.Conn]struct{}{}}
	if seed != 0 {
		p.rng = rand.New(rand.NewPCG(seed, 0))
	}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = lis.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.lis.Addr().String() }

// to sends new connections to another server.
func (p *proxy) to(backend string) {
	p.mu.Lock()
	p.backend = backend
	p.mu.Unlock()
	p.cut()
}

// cut ends all connections at once.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
		p.cuts++
	}
}

func (p *proxy) accept() {
	for {
		c, err := p.lis.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

// fate is how many bytes a connection may carry and how long it may live.
func (p *proxy) fate() (bytes int64, life time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rng == nil {
		return 1 << 60, time.Hour
	}
	// Most are short; some let a large message through.
	sizes := []int64{300, 3_000, 30_000, 300_000, 30_000_000}
	lives := []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second}
	return 1 + p.rng.Int64N(sizes[p.rng.IntN(len(sizes))]), 1 + time.Duration(p.rng.Int64N(int64(lives[p.rng.IntN(len(lives))])))
}

func (p *proxy) serve(client net.Conn) {
	p.mu.Lock()
	backend := p.backend
	p.mu.Unlock()
	server, err := net.Dial("tcp", backend)
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.add(client, server) {
		return
	}
	bytes, life := p.fate()
	end := time.AfterFunc(life, func() { p.drop(client, server) })
	defer end.Stop()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.CopyN(server, client, bytes)
		p.drop(client, server)
	})
	both.Go(func() {
		_, _ = io.CopyN(client, server, bytes)
		p.drop(client, server)
	})
	both.Wait()
}

// add is false, and closes both, when the proxy is closed.
func (p *proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
			continue
		}
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if _, ok := p.conns[c]; ok {
			delete(p.conns, c)
			_ = c.Close()
			p.cuts++
		}
	}
}
