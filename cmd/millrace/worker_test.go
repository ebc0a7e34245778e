package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestWorker lets a worker in a process of its own take its share of a sink's
// tasks, and the node take them back when the worker is killed.
func TestWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	writeFile(t, token, "s3cret\n")
	n := startNode(t, filepath.Join(dir, "data"), "--token-file", token)
	n.token = "s3cret"

	wrong := filepath.Join(dir, "wrong")
	writeFile(t, wrong, "other\n")
	out, err := exec.Command("millrace", "worker", "--join", n.grpc, "--token-file", wrong).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "token missing or wrong") {
		t.Errorf("a worker with another token: %v\n%s", err, out)
	}

	n.must(t, http.MethodPut, "/topics/t", map[string]any{"queues": 8}, nil)
	n.must(t, http.MethodPut, "/connectors/sink/config", map[string]string{
		"connector.class": "file-sink", "topics": "t", "path": filepath.Join(dir, "out", "${queue}.ndjson"), "format": "ndjson",
	}, nil)
	worker := startHands(t, n.grpc, "--token-file", token, "--data", filepath.Join(dir, "worker"))

	mine := func() int {
		var status struct {
			Tasks []struct {
				State    string
				WorkerID string `json:"worker_id"`
			}
		}
		n.must(t, http.MethodGet, "/connectors/sink/status", nil, &status)
		count := 0
		for _, task := range status.Tasks {
			if task.State == "RUNNING" && task.WorkerID == worker.id {
				count++
			}
		}
		return count
	}
	until(t, "the worker to take some of the tasks", func() bool { return mine() > 0 })
	send := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			e := map[string]any{"specversion": "1.0", "id": strconv.Itoa(i), "source": "/s", "type": "t", "partitionkey": strconv.Itoa(i % 50), "data": i}
			if err := n.publish(t.Context(), "t", e); err != nil {
				t.Fatal(err)
			}
		}
	}
	written := func(count int) func() bool {
		return func() bool { return countLines(t, filepath.Join(dir, "out")) >= count }
	}
	send(0, 200)
	until(t, "all to be written", written(200))

	worker.end(syscall.SIGKILL)
	send(200, 400)
	until(t, "the node to take over and write the rest", written(400))
	until(t, "the sink's checkpoints", func() bool {
		var g struct {
			Queues []struct{ Lag int64 }
		}
		n.must(t, http.MethodGet, "/groups/connect-sink", nil, &g)
		return !slices.ContainsFunc(g.Queues, func(q struct{ Lag int64 }) bool { return q.Lag > 0 })
	})
	got := readFiles(t, filepath.Join(dir, "out"))
	seen := make([]string, len(got))
	for i, r := range got {
		seen[i] = r.ID
	}
	slices.Sort(seen)
	if len(seen) != 400 || len(slices.Compact(seen)) != 400 {
		t.Errorf("%d events written, want 400, each once; the worker said\n%s\nthe node said\n%s", len(got), worker.log, n.log)
	}
	t.Log("counterpart: a worker in a process of its own, killed with SIGKILL")
}
