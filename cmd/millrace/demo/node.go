package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// node is a `millrace serve` of its own.
type node struct {
	url    string
	binary string
	env    []string
	cmd    *exec.Cmd
	log    *bytes.Buffer
}

// startNode runs the binary on free ports and waits for its ready line.
func startNode(ctx context.Context, binary, data string, env []string) (*node, error) {
	n := &node{binary: binary, env: env, log: &bytes.Buffer{}}
	n.cmd = exec.CommandContext(ctx, binary, "serve", "--data", data, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
	n.cmd.Cancel = func() error { return n.cmd.Process.Signal(syscall.SIGTERM) }
	n.cmd.Env, n.cmd.Stderr = env, n.log
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	if err := n.cmd.Start(); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	for word := range strings.FieldsSeq(line) {
		if strings.HasPrefix(word, "http://") {
			n.url = word
		}
	}
	if n.url == "" {
		return nil, errors.Join(fmt.Errorf("demo: the node said %q: %s", line, n.log), err, n.stop())
	}
	return n, nil
}

func (n *node) stop() error {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	err := n.cmd.Wait()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok && ee.ExitCode() != 1 || err == nil {
		return nil // ended by the signal
	}
	return fmt.Errorf("demo: the node ended with %w: %s", err, n.log)
}

// apply is `millrace apply -f`.
func (n *node) apply(ctx context.Context, file string) error {
	cmd := exec.CommandContext(ctx, n.binary, "apply", "-f", file, "--server", n.url)
	cmd.Env = n.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply %s: %w: %s", filepath.Base(file), err, out)
	}
	return nil
}

// call sends a request; in, if not nil, is JSON, or bytes as they are. The
// answer is decoded into out, if not nil. An answer that is no 2xx is an error.
func (n *node) call(ctx context.Context, method, path string, header map[string]string, in, out any) error {
	body, ok := in.([]byte)
	if in != nil && !ok {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, n.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// target is the HTTP endpoint that orders are delivered to.
type target struct {
	url string
	srv *http.Server

	mu   sync.Mutex
	got  []string // bodies
	idOf map[string]bool
}

func startTarget(ctx context.Context) (*target, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	t := &target{url: "http://" + l.Addr().String(), idOf: map[string]bool{}}
	t.srv = &http.Server{Handler: t, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = t.srv.Serve(l) }()
	return t, nil
}

func (t *target) Close() error { return t.srv.Close() }

func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.got = append(t.got, string(body))
	t.idOf[r.Header.Get("Ce-Id")] = true
	w.WriteHeader(http.StatusNoContent)
}

func (t *target) has(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.idOf[id]
}

// lines reads the whole lines of a file; none when it is not there yet.
func lines(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all := strings.Split(string(b), "\n")
	return all[:len(all)-1], nil
}

// text gets a page as it is.
func (n *node) text(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url+path, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}
