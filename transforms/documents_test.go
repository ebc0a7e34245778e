package transforms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/bus/event"
	"millrace/transforms/embed"
)

// TestEmbedBatch runs a chain whose endpoint first fails, then answers: the error
// is Apply's own, names the step and carries the pause; then all chunks of all
// events go in one request.
func TestEmbedBatch(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			w.Header().Set("Retry-After", "3")
			http.Error(w, "busy", http.StatusTooManyRequests)
			return
		}
		var in struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		var items []string
		for i := range in.Input {
			items = append(items, fmt.Sprintf(`{"index":%d,"embedding":[1,%d]}`, i, i))
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(items, ","))
	}))
	defer server.Close()
	c := mustCompile(t, fmt.Sprintf(`[{"chunk": {"size": 12, "overlap": 0}}, {"embed": {"url": %q, "model": "m", "allowPrivate": true}, "if": "data.document != \"plain\""}]`, server.URL))
	in := []event.Event{
		{ID: "a", Source: "/s", Type: "t", Data: []byte(`{"document":"a","text":"one two\n\nthree four"}`)},
		{ID: "bad", Source: "/s", Type: "t", Data: []byte(`{}`)},
		{ID: "b", Source: "/s", Type: "t", Data: []byte(`{"document":"plain","text":"five"}`)},
		{ID: "c", Source: "/s", Type: "t", Key: "c"},
	}
	_, err := c.Apply(context.Background(), in)
	se, step := errors.AsType[*StepError](err)
	pause, asked := errors.AsType[*embed.Error](err)
	if !step || se.Index != 1 || se.Step != "embed" || !asked || pause.After != 3*time.Second {
		t.Fatalf("a busy endpoint: %v", err)
	}
	results, err := c.Apply(context.Background(), in)
	if err != nil || len(results) != 5 || requests.Load() != 2 {
		t.Fatalf("%d results, %d requests, %v", len(results), requests.Load(), err)
	}
	for i, want := range []string{`"embedding":[1,0]`, `"embedding":[1,1]`, "", `"document":"plain"`, ""} {
		r := results[i]
		if (r.Err != nil) != (i == 2) || r.Err == nil && !strings.Contains(string(r.Event.Data), want) {
			t.Errorf("result %d: %v %s", i, r.Err, r.Event.Data)
		}
	}
	if parents := fmt.Sprint(results[0].Parent, results[1].Parent, results[2].Parent, results[3].Parent, results[4].Parent); parents != "0 0 1 2 3" {
		t.Errorf("parents %s", parents)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cancel()
	if _, err := c.Apply(ctx, in); !errors.Is(err, context.Canceled) || errors.As(err, &se) {
		t.Errorf("with an ended context: %v", err)
	}
}
