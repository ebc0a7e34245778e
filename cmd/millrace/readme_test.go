package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestReadme runs the quick start of README.md as it is written, but for the
// ports, which are free ones here.
func TestReadme(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here, which the quick start uses")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- quick start -->\n```sh\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("README.md has no quick start")
	}
	web, grpc := freePort(t), freePort(t)
	script := strings.ReplaceAll(string(block[1]), "127.0.0.1:8080", web)
	script = strings.Replace(script, "serve --data data", fmt.Sprintf("serve --data data --http %s --grpc %s", web, grpc), 1)

	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	binary, err := exec.LookPath("millrace")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "bin", "millrace")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-u", "-o", "pipefail", "-c", "trap 'kill %1 2>/dev/null || true; wait' EXIT\n"+script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), serverEnv+"=http://"+web)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log("counterpart: curl")
	for _, want := range []string{
		`"id":"1"`,
		`{"amount":250,"currency":"EUR","size":"big"}`,
		"rule-big-orders",
		"doesnotmatch",
	} {
		if !strings.Contains(strings.ReplaceAll(string(out), " ", ""), want) {
			t.Errorf("the quick start does not show %s:\n%s", want, out)
		}
	}
}

// freePort finds a port that nobody has at this moment.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
