package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestSync counts, with strace, the fdatasync calls of a node: each append that
// waits for the one before it needs one of its own. Invariant 1.
func TestSync(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not here")
	}
	if out, err := exec.Command("strace", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v %s", err, out)
	}
	dir := t.TempDir()
	counts := filepath.Join(dir, "counts")
	// With -D the node is our child and strace, which traces it, is not in between.
	n, err := launchCommand(dir, "strace", "-D", "-f", "-c", "-o", counts, "-e", "trace=fdatasync,fsync",
		"millrace", "serve", "--data", filepath.Join(dir, "data"), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer n.kill()
	n.must(t, http.MethodPut, "/topics/t", nil, nil)
	const appends = 100
	for i := range appends {
		e := map[string]any{"specversion": "1.0", "id": strconv.Itoa(i), "source": "/s", "type": "t", "data": i}
		if err := n.publish(t.Context(), "t", e); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	var text []byte
	until(t, "strace to write its counts", func() bool {
		text, err = os.ReadFile(counts)
		return err == nil && strings.Contains(string(text), "total")
	})
	line := regexp.MustCompile(`(?m)^.*\s(\d+)\s+(?:\d+\s+)?fdatasync$`).FindSubmatch(text)
	if line == nil {
		t.Fatalf("no fdatasync at all:\n%s", text)
	}
	if calls, err := strconv.Atoi(string(line[1])); err != nil || calls < appends {
		t.Errorf("%d calls of fdatasync for %d appends one after another\n%s", calls, appends, text)
	}
	t.Logf("counterpart: strace, which saw fdatasync at work\n%s", text)
}
