package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// hands is one `millrace worker` in a process of its own.
type hands struct {
	id  string
	cmd *exec.Cmd
	log *tail
}

// startHands starts a worker and waits until it has joined.
func startHands(t *testing.T, join string, flags ...string) *hands {
	t.Helper()
	h := &hands{cmd: exec.Command("millrace", append([]string{"worker", "--join", join}, flags...)...), log: &tail{}}
	h.cmd.Stderr = h.log
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.end(syscall.SIGKILL) })
	// millrace worker ID ready joined HOST:PORT
	line, err := bufio.NewReader(stdout).ReadString('\n')
	f := strings.Fields(line)
	if err != nil || len(f) < 4 || f[3] != "ready" {
		t.Fatalf("the worker said %q, %v\n%s", line, err, h.log)
	}
	h.id = f[2]
	return h
}

// end sends a signal and waits for the end.
func (h *hands) end(signal syscall.Signal) {
	h.cmd.Process.Signal(signal)
	h.cmd.Wait()
}

// TestWorkersComeAndGo lets workers join, stop in order and be killed while
// events flow through a sink and a rule: both hold each event exactly once and
// each key in order, whoever carried it.
func TestWorkersComeAndGo(t *testing.T) {
	t.Parallel()
	length := 20 * time.Second
	if soak := soakLength(t); soak > 0 {
		length = soak
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	n := startNode(t, filepath.Join(dir, "data"))
	n.must(t, http.MethodPut, "/topics/t", map[string]any{"queues": 8}, nil)
	n.must(t, http.MethodPut, "/topics/shaped", map[string]any{"queues": 3}, nil)
	n.must(t, http.MethodPut, "/connectors/sink/config", map[string]string{
		"connector.class": "file-sink", "topics": "t", "path": filepath.Join(dir, "out", "${queue}.ndjson"), "format": "ndjson", "flush.interval": "50ms",
	}, nil)
	n.must(t, http.MethodPut, "/rules/shape", map[string]any{
		"from": []string{"t"}, "transforms": []any{map[string]any{"set": map[string]any{"data.more": "1"}}},
		"to": []any{map[string]any{"topic": "shaped"}}, "start": "earliest",
	}, nil)

	stop := make(chan struct{})
	var load sync.WaitGroup
	sent := make(map[string]int)
	load.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			key := strconv.Itoa(i % 40)
			e := map[string]any{"specversion": "1.0", "id": fmt.Sprintf("%s-%d", key, sent[key]), "source": "/s", "type": "t", "partitionkey": key, "data": map[string]int{"n": sent[key]}}
			if err := n.publish(t.Context(), "t", e); err != nil {
				t.Errorf("publish: %v", err)
				return
			}
			sent[key]++
		}
	})
	var at []*hands
	kills, stops := 0, 0
	for end := time.After(length); ; {
		select {
		case <-end:
			end = nil
		case <-time.After(time.Duration(200+random.IntN(1500)) * time.Millisecond):
		}
		if end == nil {
			break
		}
		if len(at) < 2 || len(at) < 4 && random.IntN(2) == 0 {
			at = append(at, startHands(t, n.grpc, "--data", filepath.Join(dir, fmt.Sprint("worker-", kills+stops+len(at)))))
			continue
		}
		i := random.IntN(len(at))
		if random.IntN(3) == 0 {
			at[i].end(syscall.SIGKILL)
			kills++
		} else {
			at[i].end(syscall.SIGTERM)
			stops++
		}
		at = append(at[:i], at[i+1:]...)
	}
	close(stop)
	load.Wait()
	t.Logf("counterpart: workers in processes of their own; %d were killed, %d stopped", kills, stops)

	want := make(map[string][]string)
	for key, count := range sent {
		for i := range count {
			want[key] = append(want[key], fmt.Sprintf("%s-%d", key, i))
		}
	}
	w := &world{}
	w.current.Store(n)
	waitIdle(t, n)
	compare(t, "the file sink", want, ids(byKey(readFiles(t, filepath.Join(dir, "out")))))
	compare(t, "the rule's topic", want, ids(byKey(flat(w.read(t, "shaped", 3)))))
}
