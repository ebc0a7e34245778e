package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

// publish appends n events with keys, so that they spread over queues.
func (w *world) publish(topic string, from, n int) {
	w.t.Helper()
	var b bytes.Buffer
	for i := range n {
		sep := ","
		if i == 0 {
			sep = "["
		}
		fmt.Fprintf(&b, `%s{"specversion":"1.0","id":"%d","source":"/s","type":"t","partitionkey":"k%d"}`, sep, from+i, (from+i)%17)
	}
	b.WriteByte(']')
	rec := w.do(http.MethodPost, "/topics/"+topic+"/events", http.Header{"Content-Type": {"application/cloudevents-batch+json"}}, b.String())
	if rec.Code != http.StatusOK {
		w.t.Fatalf("publish: %d %s", rec.Code, rec.Body)
	}
}

// listen serves on a socket until the test ends.
func (w *world) listen() *httptest.Server {
	node := httptest.NewServer(w.server.Handler())
	w.t.Cleanup(func() { w.server.stop(); node.Close() })
	return node
}

// sseClient reads a stream of server-sent events.
type sseClient struct {
	t      *testing.T
	cancel context.CancelFunc
	lines  *bufio.Scanner
	last   string // id of the last event read
}

func openStream(t *testing.T, url, last string) *sseClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, type %q", res.StatusCode, res.Header.Get("Content-Type"))
	}
	s := bufio.NewScanner(res.Body)
	s.Buffer(nil, 16<<20)
	return &sseClient{t: t, cancel: cancel, lines: s}
}

// next returns the next event's id attribute and queue, or false at the end.
func (c *sseClient) next() (id, queue string, ok bool) {
	for c.lines.Scan() {
		line := c.lines.Text()
		if v, found := strings.CutPrefix(line, "id: "); found {
			c.last = v
		}
		if v, found := strings.CutPrefix(line, "data: "); found {
			var e struct{ ID, MRQueue string }
			if err := json.Unmarshal([]byte(v), &e); err != nil {
				return v, "", true
			}
			return e.ID, e.MRQueue, true
		}
	}
	return "", "", false
}

// comment returns the next comment.
func (c *sseClient) comment() string {
	for c.lines.Scan() {
		if v, ok := strings.CutPrefix(c.lines.Text(), ": "); ok {
			return v
		}
	}
	return ""
}

// TestStreamResume reads a topic of many queues through streams that are cut
// again and again, and sees every event once, in order within its queue.
func TestStreamResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.must(http.StatusCreated, http.MethodPut, "/topics/many", `{"queues":5}`)
	node := w.listen()
	const n = 700
	w.publish("many", 0, n/2)
	seen, lastOf := map[string]bool{}, map[string]int{}
	last := ""
	for round := 0; len(seen) < n; round++ {
		c := openStream(t, node.URL+"/topics/many/events?from=earliest", last)
		for range 97 + round {
			if len(seen) == n/2 && round < 1000 {
				w.publish("many", n/2, n/2) // the rest comes while the stream waits
				round = 1000
			}
			id, queue, ok := c.next()
			if !ok {
				t.Fatal("the stream ended")
			}
			if seen[id] {
				t.Fatalf("event %s came twice", id)
			}
			seen[id] = true
			var number int
			if _, err := fmt.Sscan(id, &number); err != nil {
				t.Fatal(err)
			}
			if before, ok := lastOf[queue]; ok && number < before {
				t.Fatalf("queue %s: %d came after %d", queue, number, before)
			}
			lastOf[queue] = number
			if len(seen) == n {
				break
			}
		}
		last = c.last
		c.cancel()
	}
}

// TestStreamEnds: a stream beats while nothing comes, tells when its topic is
// deleted, and ends with the server.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.server.heartbeat = 10 * time.Millisecond
	w.must(http.StatusCreated, http.MethodPut, "/topics/quiet", "")
	node := w.listen()

	c := openStream(t, node.URL+"/topics/quiet/events", "")
	if got := c.comment(); got != "stream of quiet" {
		t.Errorf("the stream begins with %q", got)
	}
	if got := c.comment(); got != "heartbeat" {
		t.Errorf("then comes %q", got)
	}
	w.must(http.StatusNoContent, http.MethodDelete, "/topics/quiet?force=true", "")
	if got, _, ok := c.next(); !ok || !strings.Contains(got, "deleted") {
		t.Errorf("after the topic was deleted came %q", got)
	}

	w.must(http.StatusCreated, http.MethodPut, "/topics/quiet", "")
	for _, query := range []string{"", "?queue=7"} {
		c = openStream(t, node.URL+"/topics/quiet/events"+query, "")
		if got := c.comment(); got == "" {
			t.Fatal("the stream did not begin")
		}
		defer func(c *sseClient) {
			for c.lines.Scan() {
			}
			if err := c.lines.Err(); err != nil {
				t.Errorf("the stream broke: %v", err)
			}
		}(c)
	}
	w.server.stop()
}

// TestStreamOfNewIncarnation: a token of a topic that was made again starts at
// the new one's beginning. Invariant 3.
func TestStreamOfNewIncarnation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.must(http.StatusCreated, http.MethodPut, "/topics/again", "")
	node := w.listen()
	w.publish("again", 0, 3)
	c := openStream(t, node.URL+"/topics/again/events?from=earliest", "")
	for range 3 {
		c.next()
	}
	w.must(http.StatusNoContent, http.MethodDelete, "/topics/again?force=true", "")
	w.must(http.StatusCreated, http.MethodPut, "/topics/again", "")
	w.publish("again", 100, 1)
	c = openStream(t, node.URL+"/topics/again/events", c.last)
	if id, _, _ := c.next(); id != "100" {
		t.Errorf("the stream goes on with %q, want 100", id)
	}
}

// TestMergeByTime: without a queue, the queues come as one by the time they were
// stored, and pages by time leave nothing out.
func TestMergeByTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.must(http.StatusCreated, http.MethodPut, "/topics/many", `{"queues":7}`)
	const n = 300
	for i := range n {
		w.publish("many", i, 1)
	}
	var page []struct{ ID string }
	if err := json.Unmarshal([]byte(w.must(http.StatusOK, http.MethodGet, "/topics/many/events?limit=1000", "")), &page); err != nil {
		t.Fatal(err)
	}
	if len(page) != n {
		t.Fatalf("%d events, want %d", len(page), n)
	}
	for i, e := range page {
		if e.ID != strconv.Itoa(i) {
			t.Fatalf("event %d is %s", i, e.ID)
		}
	}
}

// TestWait: a read that waits answers as soon as something comes, and no later
// than its time.
func TestWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.must(http.StatusCreated, http.MethodPut, "/topics/slow", `{"queues":3}`)
	got := make(chan string)
	go func() {
		rec := w.do(http.MethodGet, "/topics/slow/events?from=latest&wait=50s", nil, "")
		got <- rec.Body.String()
	}()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case body := <-got:
			if !strings.Contains(body, `"type":"t"`) {
				t.Errorf("the answer is %s", body)
			}
			return
		case <-tick.C: // the reader may have looked for the latest only now
			w.publish("slow", i, 1)
		case <-deadline:
			t.Fatal("the reader did not wake")
		}
	}
}

// TestAnswerIsCut: an answer ends at 8 MiB, and the next page goes on there.
// Invariant 10.
func TestAnswerIsCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.must(http.StatusCreated, http.MethodPut, "/topics/fat", "")
	h := http.Header{"Content-Type": {"text/plain"}, "Ce-Specversion": {"1.0"}, "Ce-Source": {"/s"}, "Ce-Type": {"t"}}
	for i := range 5 {
		h.Set("Ce-Id", strconv.Itoa(i))
		if rec := w.do(http.MethodPost, "/topics/fat/events", h, strings.Repeat("x", 3<<20)); rec.Code != http.StatusOK {
			t.Fatal(rec.Body)
		}
	}
	at := 0
	for _, want := range []int{2, 2, 1, 0} {
		body := w.must(http.StatusOK, http.MethodGet, fmt.Sprintf("/topics/fat/events?from=%d", at), "")
		var page []struct{ ID string }
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err)
		}
		if len(page) != want || len(body) > maxAnswer+1024 {
			t.Fatalf("from %d: %d events in %d bytes, want %d", at, len(page), len(body), want)
		}
		at += len(page)
	}
}

// counting counts the bytes of the records that are read through it.
type counting struct {
	bus.Client
	read atomic.Int64
}

func (c *counting) Read(ctx context.Context, from []bus.Cursor, most bus.Limit) ([]event.Record, error) {
	records, err := c.Client.Read(ctx, from, most)
	for i := range records {
		c.read.Add(int64(records[i].Size()))
	}
	return records, err
}

// TestStalledStream: a client that does not read makes the server read no more
// than a piece and what the sockets hold. Invariant 10.
func TestStalledStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	client := &counting{Client: w.bus}
	w.server.client = client
	w.must(http.StatusCreated, http.MethodPut, "/topics/fat", "")
	h := http.Header{"Content-Type": {"text/plain"}, "Ce-Specversion": {"1.0"}, "Ce-Source": {"/s"}, "Ce-Type": {"t"}}
	const each, n = 1 << 20, 40
	for i := range n {
		h.Set("Ce-Id", strconv.Itoa(i))
		if rec := w.do(http.MethodPost, "/topics/fat/events", h, strings.Repeat("x", each)); rec.Code != http.StatusOK {
			t.Fatal(rec.Body)
		}
	}
	node := w.listen()
	c := openStream(t, node.URL+"/topics/fat/events?from=earliest", "")
	before := int64(-1)
	w.eventually(func() string { // until it reads no more
		now := client.read.Load()
		defer func() { before = now }()
		if now == 0 || now != before {
			return "the server goes on reading"
		}
		return ""
	})
	if got := client.read.Load(); got > n*each/2 {
		t.Errorf("%d bytes were read for a client that takes none", got)
	}
	for i := range n {
		if id, _, ok := c.next(); !ok || id != strconv.Itoa(i) {
			t.Fatalf("event %d is %q", i, id)
		}
	}
}
