package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/script/*.txtar: each is a story of commands against
// a node of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(3 * time.Minute),
		Setup: func(e *testscript.Env) error {
			e.Values[nodeKey{}] = make(map[string]*node)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"eventually": eventually,
			"node":       startScriptNode,
			"stop":       stopScriptNode,
		},
	})
}

// exits runs "exits STATUS COMMAND…" and fails when it ends otherwise.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	status := "0"
	if err != nil {
		status = err.Error()
		if e, ok := err.(interface{ ExitCode() int }); ok {
			status = string(rune('0' + e.ExitCode()))
		}
	}
	if status != args[0] {
		ts.Fatalf("exit status %s, want %s", status, args[0])
	}
}

// eventually runs "eventually REGEXP COMMAND…" again and again until what it
// prints matches.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP COMMAND…")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for {
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Env = append(os.Environ(), serverEnv+"="+ts.Getenv(serverEnv))
		out, err := cmd.CombinedOutput()
		if err == nil && want.Match(out) {
			ts.Logf("%s", out)
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("waited 30 s for %s; at last %v\n%s", args[0], err, out)
		}
	}
}

// startScriptNode runs "node DIR [FLAG…]": a node on a data directory, which the
// verbs that follow speak to.
func startScriptNode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: node DIR [FLAG…]")
	}
	n, err := launch(ts.MkAbs(args[0]), args[1:]...)
	ts.Check(err)
	ts.Defer(n.kill)
	ts.Setenv(serverEnv, n.url)
	ts.Setenv("NODE", n.url)
	ts.Setenv("GRPC", n.grpc)
	running, _ := ts.Value(nodeKey{}).(map[string]*node)
	running[n.url] = n
}

// stopScriptNode runs "stop": the node last started ends in order.
func stopScriptNode(ts *testscript.TestScript, neg bool, _ []string) {
	running, _ := ts.Value(nodeKey{}).(map[string]*node)
	n := running[ts.Getenv("NODE")]
	if neg || n == nil {
		ts.Fatalf("stop: no node runs")
	}
	ts.Check(n.stop())
}

// nodeKey is where a script keeps its nodes, by URL.
type nodeKey struct{}
