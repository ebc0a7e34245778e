package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

// TestAnswersAreBounded: what readers have not taken yet shares one budget. When
// it is used up a reader is asked to come again, a stream waits with its large
// event, and both go on once there is room.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	if _, err := w.bus.CreateTopic(t.Context(), bus.Topic{Name: "big"}); err != nil {
		t.Fatal(err)
	}
	data := []byte(`"` + strings.Repeat("x", 300_000) + `"`)
	if _, err := w.bus.Append(t.Context(), bus.Batch{Writes: []bus.Write{{Topic: "big", Events: []event.Event{
		{ID: "1", Source: "/t", Type: "t", ContentType: "application/json", Data: data},
	}}}}); err != nil {
		t.Fatal(err)
	}
	most := w.server.answers.most
	if !w.server.answers.take(most) {
		t.Fatal("the budget is not free at first")
	}
	if res := w.do(http.MethodGet, "/topics/big/events", nil, ""); res.Code != http.StatusTooManyRequests {
		t.Fatalf("status %d, want 429: %.200s", res.Code, res.Body)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/topics/big/events?from=earliest", nil)
	req.Header.Set("Accept", "text/event-stream")
	rec := &watched{ResponseRecorder: httptest.NewRecorder(), got: make(chan int, 100)}
	var done sync.WaitGroup
	done.Go(func() { w.server.Handler().ServeHTTP(rec, req) })
	if n := <-rec.got; n > 1000 {
		t.Fatalf("the stream sent %d bytes without room", n)
	}
	w.server.answers.give(most)
	for n := 0; n < len(data); {
		select {
		case k := <-rec.got:
			n += k
		case <-time.After(10 * time.Second):
			t.Fatalf("only %d bytes came once there was room", n)
		}
	}
	if res := w.do(http.MethodGet, "/topics/big/events", nil, ""); res.Code != http.StatusOK || res.Body.Len() < len(data) {
		t.Fatalf("status %d, %d bytes", res.Code, res.Body.Len())
	}
	cancel()
	done.Wait()
	if used := w.server.answers.used.Load(); used != 0 {
		t.Fatalf("%d bytes are still held", used)
	}
}

// watched tells of every write.
type watched struct {
	*httptest.ResponseRecorder
	got chan int
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(b)
	select {
	case w.got <- n:
	default:
	}
	return n, err
}
