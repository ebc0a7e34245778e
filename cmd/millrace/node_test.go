package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// waitStop is how long a node may take to stop in order.
const waitStop = 30 * time.Second

// node is one `millrace serve` in a process of its own, on free ports.
type node struct {
	url, grpc string
	token     string // that its clients send; "" = none
	cmd       *exec.Cmd
	log       *tail
	done      chan error // gets what Wait says, once
}

// startNode starts a node on a data directory and waits until it says that it
// is ready. It is killed when the test ends, if it is still there.
func startNode(t *testing.T, data string, flags ...string) *node {
	t.Helper()
	n, err := launch(data, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.kill() })
	return n
}

// launch is startNode without a test.
func launch(data string, flags ...string) (*node, error) {
	args := append([]string{"serve", "--data", data, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"}, flags...)
	return launchCommand(filepath.Dir(data), "millrace", args...)
}

// launchCommand runs a command in a directory that is, or becomes, `millrace
// serve`.
func launchCommand(dir, name string, args ...string) (*node, error) {
	n := &node{cmd: exec.Command(name, args...), log: &tail{}, done: make(chan error, 1)}
	n.cmd.Dir, n.cmd.Stderr = dir, n.log
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	// millrace ready URL grpc ADDRESS data DIR
	if f := strings.Fields(first); err == nil && len(f) >= 5 && f[1] == "ready" {
		n.url, n.grpc = f[2], f[4]
		go func() {
			io.Copy(io.Discard, lines)
			n.done <- n.cmd.Wait()
		}()
		return n, nil
	}
	n.cmd.Process.Kill()
	return nil, fmt.Errorf("millrace serve did not get ready: %w, it said %q and\n%s", errors.Join(err, n.cmd.Wait()), first, n.log)
}

// kill ends the process as kill -9 does and waits until it is gone.
func (n *node) kill() {
	n.cmd.Process.Kill()
	n.wait(10 * time.Second)
}

// stop asks the process to end and returns what it ended with.
func (n *node) stop() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return n.wait(waitStop)
}

// wait waits for the end of the process.
func (n *node) wait(most time.Duration) error {
	select {
	case err := <-n.done:
		n.done <- err
		return err
	case <-time.After(most):
		return fmt.Errorf("still there after %s; it said\n%s", most, n.log)
	}
}

// call makes one JSON request; an answer that is not a 2xx is an error.
func (n *node) call(ctx context.Context, method, path string, in, out any) error {
	c := &client{base: n.url, token: n.token, http: http.DefaultClient}
	return c.call(ctx, method, path, in, out)
}

// must is call that fails the test.
func (n *node) must(t *testing.T, method, path string, in, out any) {
	t.Helper()
	if err := n.call(t.Context(), method, path, in, out); err != nil {
		t.Fatalf("%s %s: %v; the node said\n%s", method, path, err, n.log)
	}
}

// publish appends events to a topic.
func (n *node) publish(ctx context.Context, topic string, events ...map[string]any) error {
	body, err := json.Marshal(events)
	if err != nil {
		return err
	}
	c := &client{base: n.url, token: n.token, http: http.DefaultClient}
	res, err := c.send(ctx, http.MethodPost, pathOf("topics", topic, "events"), http.Header{"Content-Type": {"application/cloudevents-batch+json"}}, body)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// events reads all that a queue holds from an offset on.
func (n *node) events(t *testing.T, topic string, queue int, from int64) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	for {
		var page []json.RawMessage
		n.must(t, http.MethodGet, fmt.Sprintf("/topics/%s/events?queue=%d&from=%d&limit=1000", topic, queue, from+int64(len(all))), nil, &page)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

// waitIdle waits until no group has anything left to read.
func waitIdle(t *testing.T, n *node) {
	t.Helper()
	var groups []struct {
		Name string
		Lag  int64
	}
	until(t, "all groups to have read everything", func() bool {
		n.must(t, http.MethodGet, "/groups?internal=true", nil, &groups)
		for _, g := range groups {
			if g.Lag > 0 {
				return false
			}
		}
		return len(groups) > 0
	})
}

// soakLength is what MILLRACE_SOAK says; 0 when it is not set.
func soakLength(t *testing.T) time.Duration {
	t.Helper()
	v := os.Getenv("MILLRACE_SOAK")
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		t.Fatalf("MILLRACE_SOAK: %v", err)
	}
	return d
}

// until calls check every 20 ms until it says true, and fails the test after
// a minute.
func until(t *testing.T, what string, check func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
		<-tick.C
	}
}

// tail keeps the last 16 KiB of what is written to it.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Write(p)
	if l.b.Len() > 32<<10 {
		l.b.Next(l.b.Len() - 16<<10)
	}
	return len(p), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// writeFile makes a file of a test.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
