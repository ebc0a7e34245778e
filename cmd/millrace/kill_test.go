package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Without MILLRACE_KILLS the crash test kills killsDefault times, or as often as
// fits into killBudget.
const (
	killsDefault = 60
	killBudget   = 50 * time.Second
	killQueues   = 4
	// At 500 a second the generator is at work for most of the time.
	generatedPerKill = 200
)

// TestKill kills a working node with SIGKILL again and again, while sources,
// rules and sinks run and clients publish over HTTP, and starts it again on the
// same data. Afterwards nothing that was acknowledged is missing, each key is in
// order, offsets are dense, what came from sources is there exactly once, and
// sinks hold what they should.
func TestKill(t *testing.T) {
	kills, budget := killsDefault, killBudget
	if v := os.Getenv("MILLRACE_KILLS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			t.Fatalf("MILLRACE_KILLS: %q is not a number of kills", v)
		}
		kills, budget = n, 24*time.Hour
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	w := newWorld(t, seed, kills*generatedPerKill)
	w.start(t)
	w.apply(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() { w.produce(ctx, i) })
	}
	load.Go(func() { w.appendLines(ctx) })

	began, done := time.Now(), 0
	for ; done < kills && time.Since(began) < budget; done++ {
		// Some kills hit a node that has only just begun.
		wait := time.Duration(random.IntN(600)) * time.Millisecond
		if random.IntN(5) == 0 {
			wait /= 20
		}
		<-time.After(wait)
		w.node().kill()
		w.start(t)
	}
	stop()
	load.Wait()
	t.Logf("counterpart: a real process, killed with SIGKILL %d times", done)
	t.Logf("%d kills in %s; %d events acknowledged over HTTP, %d posts tried again", done, time.Since(began).Round(time.Second), w.acked.Load(), w.retried.Load())
	if done == 0 || w.acked.Load() == 0 {
		t.Fatal("nothing happened")
	}
	w.drain(t)
	w.check(t)
	if err := w.node().stop(); err != nil {
		t.Errorf("a node that is asked to stop ends with %v", err)
	}
	// Once more after an orderly stop: everything is still there.
	w.start(t)
	w.check(t)
	if err := w.node().stop(); err != nil {
		t.Error(err)
	}
}

// world is the node under test and all that it is fed with.
type world struct {
	dir, data string
	seed      uint64
	generated int // events that the generator makes
	target    *target
	current   atomic.Pointer[node]

	acked, retried atomic.Int64
	mu             sync.Mutex
	acks           []ack // what was acknowledged over HTTP
	lines          int   // written to the followed file
}

// ack is one acknowledged event: it must be found at its place.
type ack struct {
	ID     string `json:"id"`
	Queue  int    `json:"queue"`
	Offset int64  `json:"offset"`
}

func newWorld(t *testing.T, seed uint64, generated int) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{dir: dir, data: filepath.Join(dir, "data"), seed: seed, generated: generated, target: newTarget(t)}
	for _, d := range []string{"in", "rule-out", "topic-out"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if n := w.node(); n != nil {
			n.kill()
			if t.Failed() {
				t.Logf("the last node said\n%s", n.log)
			}
		}
	})
	return w
}

func (w *world) node() *node { return w.current.Load() }

func (w *world) start(t *testing.T) {
	t.Helper()
	n, err := launch(w.data)
	if err != nil {
		t.Fatal(err)
	}
	w.current.Store(n)
}

// order is the data of the events that clients publish.
type order struct {
	N        int    `json:"n"`
	Amount   int    `json:"amount"`
	Currency string `json:"currency"`
}

// produce publishes orders until ctx ends: each post has at most one event a
// key, and is tried again until it is acknowledged, so that each key's numbers
// may repeat but never fall.
func (w *world) produce(ctx context.Context, producer int) {
	random := rand.New(rand.NewPCG(w.seed, uint64(producer)+1))
	next := make([]int, 5)
	for ctx.Err() == nil {
		var batch []map[string]any
		for k := range 1 + random.IntN(len(next)) {
			key := fmt.Sprintf("p%d-%d", producer, k)
			next[k]++
			batch = append(batch, map[string]any{
				"specversion": "1.0", "id": fmt.Sprintf("%s-%d", key, next[k]), "source": "/kill",
				"type": []string{"order.created", "order.changed"}[random.IntN(2)], "partitionkey": key,
				"data": order{next[k], random.IntN(200), []string{"EUR", "USD"}[random.IntN(2)]},
			})
		}
		body, err := json.Marshal(batch)
		if err != nil {
			panic(err)
		}
		// The last post is tried until it is acknowledged too.
		for {
			answer, err := w.post(body)
			if err == nil {
				w.acked.Add(int64(len(answer)))
				w.mu.Lock()
				w.acks = append(w.acks, answer...)
				w.mu.Unlock()
				break
			}
			w.retried.Add(1)
			<-time.After(5 * time.Millisecond)
		}
	}
}

// post publishes one batch to the node that is there now.
func (w *world) post(body []byte) ([]ack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := &client{base: w.node().url, http: http.DefaultClient}
	res, err := c.send(ctx, http.MethodPost, "/topics/orders/events", http.Header{"Content-Type": {"application/cloudevents-batch+json"}}, body)
	if err != nil {
		if e, ok := errors.AsType[*apiError](err); ok && e.Status/100 == 4 {
			panic(err) // a fault of the test
		}
		return nil, err
	}
	defer res.Body.Close()
	var answer []ack
	return answer, json.NewDecoder(res.Body).Decode(&answer)
}

// appendLines writes lines to a file that a source follows, some of them in two
// pieces.
func (w *world) appendLines(ctx context.Context) {
	random := rand.New(rand.NewPCG(w.seed, 99))
	f, err := os.OpenFile(filepath.Join(w.dir, "in", "a.ndjson"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	for n := 0; ctx.Err() == nil; n++ {
		line := fmt.Appendf(nil, "{\"n\":%d,\"text\":%q}\n", n, "line")
		cut := random.IntN(len(line))
		for _, piece := range [][]byte{line[:cut], line[cut:]} {
			if _, err := f.Write(piece); err != nil {
				panic(err)
			}
		}
		w.mu.Lock()
		w.lines = n + 1
		w.mu.Unlock()
		<-time.After(time.Duration(random.IntN(4)) * time.Millisecond)
	}
}
