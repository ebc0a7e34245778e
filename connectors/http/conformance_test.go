package http_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"millrace/bus/event"
	"millrace/connectors/connectorstest"
	sink "millrace/connectors/http"
)

func TestConformance(t *testing.T) {
	for _, mode := range []string{"binary", "structured", "batch"} {
		t.Run(mode, func(t *testing.T) {
			c := connectorstest.SinkCase{Plugin: sink.Plugin(), Target: func(t *testing.T) (map[string]any, func(*testing.T) []string) {
				t.Helper()
				url, read := endpoint(t, mode)
				return map[string]any{"url": url, "mode": mode, "batch": 3, "allow.private": true, "headers": map[string]any{"X-A": "b"}}, read
			}}
			if mode != "batch" { // there the endpoint refuses requests, not events
				c.Bad = func(r *event.Record) { r.Type = "refused" }
			}
			connectorstest.Sink(t, c)
		})
	}
}

// endpoint keeps the ids of what the CloudEvents SDK reads, and refuses some.
func endpoint(t *testing.T, mode string) (url string, read func(*testing.T) []string) {
	t.Helper()
	var mu sync.Mutex
	var ids []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if mode == "batch" {
			events, err := cehttp.NewEventsFromHTTPRequest(r)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			for _, e := range events {
				ids = append(ids, e.ID())
			}
			return
		}
		e, err := cehttp.NewEventFromHTTPRequest(r)
		if err != nil || e.Type() == "refused" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		ids = append(ids, e.ID())
	}))
	t.Cleanup(server.Close)
	return server.URL, func(*testing.T) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ids)
	}
}
