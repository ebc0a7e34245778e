package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"millrace/api/rest"
)

// endless is a body that never ends and counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func (w *world) postBody(body io.Reader, length int64) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/topics/t/events", body)
	r.ContentLength = length
	r.Header.Set("Content-Type", "application/cloudevents+json")
	rec := httptest.NewRecorder()
	w.server.Handler().ServeHTTP(rec, r)
	return rec
}

// TestBodyIsBounded: no more of a body is read than the limit, whatever length is
// announced, and nothing stays held. Invariant 10.
func TestBodyIsBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	w := newWorld(t, Options{MaxBody: limit})
	w.must(http.StatusCreated, http.MethodPut, "/topics/t", "")
	for length, want := range map[int64]int{-1: http.StatusRequestEntityTooLarge, limit: http.StatusBadRequest, 10: http.StatusBadRequest} {
		body := &endless{}
		var r io.Reader = body
		if length >= 0 {
			r = io.LimitReader(body, length)
		}
		if rec := w.postBody(r, length); rec.Code != want {
			t.Errorf("length %d: status %d, want %d: %s", length, rec.Code, want, rec.Body)
		}
		if body.read > limit+1 {
			t.Errorf("length %d: %d bytes were read, the limit is %d", length, body.read, limit)
		}
	}
	announced := &endless{}
	if rec := w.postBody(announced, limit+1); rec.Code != http.StatusRequestEntityTooLarge || announced.read != 0 {
		t.Errorf("an announced length beyond the limit: status %d, %d bytes read", rec.Code, announced.read)
	}
	if held := w.server.bodies.used.Load(); held != 0 {
		t.Errorf("%d bytes of bodies are still held", held)
	}
}

// TestBodyBudget: bodies beyond what may be held at one time are refused with
// 429, and let in again once others are done. Invariant 10.
func TestBodyBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{MaxBody: 1 << 20, MaxBodies: 2 << 20})
	w.must(http.StatusCreated, http.MethodPut, "/topics/t", "")
	first, feed := io.Pipe()
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- w.postBody(first, -1) }()
	if _, err := feed.Write([]byte(strings.Repeat(" ", 700<<10))); err != nil { // returns once it has been read
		t.Fatal(err)
	}
	rec := w.postBody(strings.NewReader(strings.Repeat(" ", 700<<10)), -1)
	if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q: %s", rec.Code, rec.Header().Get("Retry-After"), rec.Body)
	}
	if _, err := feed.Write([]byte(`{"specversion":"1.0","id":"1","source":"/s","type":"t"}`)); err != nil {
		t.Fatal(err)
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	if rec := <-done; rec.Code != http.StatusOK {
		t.Errorf("the first body: status %d: %s", rec.Code, rec.Body)
	}
	if rec := w.postBody(strings.NewReader("{}"), 2); rec.Code != http.StatusBadRequest {
		t.Errorf("after it was done: status %d: %s", rec.Code, rec.Body)
	}
	if held := w.server.bodies.used.Load(); held != 0 {
		t.Errorf("%d bytes of bodies are still held", held)
	}
}

// TestBrokenBody: a body that breaks off is a 400 and stores nothing.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.must(http.StatusCreated, http.MethodPut, "/topics/t", "")
	before := w.fingerprint()
	body := io.MultiReader(strings.NewReader(`{"specversion":"1.0","id":"1","source":"/s","type":"t"}`), brokenReader{})
	if rec := w.postBody(body, 1000); rec.Code != http.StatusBadRequest {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
	if w.fingerprint() != before {
		t.Error("something was stored")
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestPanic: a handler's panic is a 500, and the server goes on.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	broken := w.server.handler(rest.Route{Method: http.MethodGet, Path: "/broken", Handle: func(context.Context, *rest.Request) (rest.Answer, error) {
		panic("broken")
	}})
	w.server.echo.GET("/broken", broken)
	rec := w.do(http.MethodGet, "/broken", nil, "")
	if rec.Code != http.StatusInternalServerError || !strings.Contains(rec.Body.String(), `"error_code":500`) || strings.Contains(rec.Body.String(), "goroutine") {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
	w.must(http.StatusOK, http.MethodGet, "/healthz", "")
}

// TestServe: the server answers on a listener with Run beside it, sees what
// another server of the same log changes, and both end with ctx.
func TestServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	other, err := New(Options{Client: w.bus, Plugins: testPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() { done <- w.server.Serve(ctx, ln) }()
	go func() { done <- w.server.Run(ctx) }()
	get := func() string {
		t.Helper()
		res, err := http.Get("http://" + ln.Addr().String() + "/connections")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := get(); got != "[]\n" {
		t.Fatalf("connections are %s", got)
	}
	rec := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPut, "/connections/c", strings.NewReader(`{"type":"bearer","token":"${env:T}"}`))
	other.Handler().ServeHTTP(rec, r)
	if rec.Code != http.StatusCreated {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(get(), `"name":"c"`); {
		if time.Now().After(deadline) {
			t.Fatal("the server does not see what another one put")
		}
	}
	c := openStream(t, "http://"+ln.Addr().String()+"/topics/connector-config-topic/events", "")
	cancel()
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if _, _, ok := c.next(); ok {
		t.Error("the stream goes on after the server has ended")
	}
}
