package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/builtin"
	"millrace/workers"
)

// world is a node without sockets: a real bus in a temporary directory and the
// server on it.
type world struct {
	t      *testing.T
	bus    *bus.Bus
	server *Server
	worker chan struct{} // closed once the worker has stopped
}

func newWorld(t *testing.T, o Options) *world {
	t.Helper()
	b, err := bus.Open(t.TempDir(), bus.Options{CleanEvery: -1, Lease: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	o.Client = b
	o.Plugins = testPlugins()
	o.Node = Node{Version: "0.0.1-test", Cluster: "builtin", ID: "node-1", DataDir: t.TempDir()}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, bus: b, server: s}
	if _, err := s.desired.View(t.Context()); err != nil { // makes the tables
		t.Fatal(err)
	}
	return w
}

// work runs a worker until the test ends.
func (w *world) work() {
	ctx, cancel := context.WithCancel(w.t.Context())
	hands := workers.New(workers.Options{Client: w.bus, Plugins: testPlugins(), WorkerID: "node-1", DataDir: w.t.TempDir()})
	w.worker = make(chan struct{})
	go func() {
		defer close(w.worker)
		if err := hands.Run(ctx); err != nil && ctx.Err() == nil {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(func() { cancel(); <-w.worker })
}

// testPlugins are the built-in ones and a sink that can be searched.
func testPlugins() []connectors.Plugin {
	shelf := connectors.Plugin{Name: "shelf", Summary: "A sink that can be searched, for tests."}
	shelf.Sink = connectors.SinkOf(func(context.Context, shelfConfig, connectors.Env) (connectors.Sink, error) {
		return discard{}, nil
	})
	shelf.Sink.Aliases = []string{"org.example.ShelfConnector"}
	shelf.Sink.Search = func(_ context.Context, _ map[string]any, env connectors.Env) (connectors.Searcher, error) {
		return shelfSearcher{env.Connector}, nil
	}
	return append(builtin.Plugins(), shelf)
}

type shelfConfig struct {
	Path   string `json:"path" doc:"Where the shelf stands." spec:"required"`
	Secret string `json:"secret" doc:"A secret." spec:"secret"`
}

type discard struct{}

func (discard) Write(context.Context, []event.Record) error { return nil }
func (discard) Flush(context.Context) error                 { return nil }
func (discard) Close() error                                { return nil }

// shelfSearcher finds what it is asked for.
type shelfSearcher struct{ name string }

func (s shelfSearcher) Search(_ context.Context, q connectors.Query) ([]connectors.Hit, error) {
	if q.Text == "nothing" {
		return nil, nil
	}
	return []connectors.Hit{{ID: s.name + "/1", Score: 1, Text: q.Text, Document: "d", Metadata: q.Filter}}, nil
}

// do sends one request to the server.
func (w *world) do(method, target string, header http.Header, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for k, v := range header {
		r.Header[http.CanonicalHeaderKey(k)] = v
	}
	if body != "" && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	w.server.Handler().ServeHTTP(rec, r)
	return rec
}

// must is do for what has to answer with a status.
func (w *world) must(status int, method, target, body string) string {
	w.t.Helper()
	rec := w.do(method, target, nil, body)
	if rec.Code != status {
		w.t.Fatalf("%s %s: status %d, want %d: %s", method, target, rec.Code, status, rec.Body)
	}
	return rec.Body.String()
}

// fingerprint changes with everything that the bus holds: all state is in topics.
func (w *world) fingerprint() string {
	w.t.Helper()
	topics, err := w.bus.Topics(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	var b strings.Builder
	for _, topic := range topics {
		def, err := json.Marshal(topic)
		if err != nil {
			w.t.Fatal(err)
		}
		bounds, err := w.bus.Bounds(context.Background(), topic.Name)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %v\n", def, bounds)
	}
	return b.String()
}
