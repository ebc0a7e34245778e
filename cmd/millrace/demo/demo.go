// Package demo runs Millrace's main job on real input and checks what comes
// out: documents into a searchable store, orders through a rule, a database
// table with its changes. It speaks to a node as any client does, over HTTP.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Options configures a run.
type Options struct {
	Binary string // the millrace binary that serves; default this one
	Root   string // the project's directory, with examples/ and docs/; default .
	Keep   bool   // leave the node running at the end, until ctx ends
	Out    io.Writer
	JSON   bool // one JSON object at the end in place of lines
}

// Check is one thing that was looked at.
type Check struct {
	Part string `json:"part"`
	What string `json:"what"`
	OK   bool   `json:"ok"`
}

// Report is what a run found.
type Report struct {
	Checks  []Check  `json:"checks"`
	Skipped []string `json:"skipped"`
	Seconds float64  `json:"seconds"`
}

// ErrFailed says that a check failed; the report tells which.
var ErrFailed = errors.New("demo: a check failed")

// run is one run in progress.
type run struct {
	o      Options
	dir    string // everything that the run makes
	node   *node
	part   string
	report Report
}

// Run runs the demo. It returns ErrFailed when something was not as it should
// be, any other error when it could not run at all.
func Run(ctx context.Context, o Options) (err error) {
	if o.Root == "" {
		o.Root = "."
	}
	if o.Binary == "" {
		if o.Binary, err = os.Executable(); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if _, err := os.Stat(filepath.Join(o.Root, "examples", "rag.yaml")); err != nil {
		return fmt.Errorf("demo: run it in the project's directory: %w", err)
	}
	dir, err := os.MkdirTemp("", "millrace-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	r := &run{o: o, dir: dir}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	began := time.Now()
	target, err := startTarget(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	db, reason, err := startMariaDB(ctx, r)
	if err != nil {
		return err
	}
	if db != nil {
		defer db.stop()
	}
	env := append(os.Environ(), "MILLRACE_DEMO="+dir, "MILLRACE_DEMO_SECRET="+webhookSecret, "MILLRACE_DEMO_TARGET="+target.url)
	if db != nil {
		env = append(env, fmt.Sprintf("MILLRACE_DEMO_MYSQL_PORT=%d", db.port), "MILLRACE_DEMO_MYSQL_PASSWORD="+db.password)
	}
	if err := r.prepareDocs(); err != nil {
		return err
	}
	if r.node, err = startNode(ctx, o.Binary, filepath.Join(dir, "data"), env); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.node.stop()) }()
	r.say("a node runs at %s on an empty data directory", r.node.url)

	if err := r.rag(ctx); err != nil {
		return fmt.Errorf("demo: documents: %w", err)
	}
	if err := r.orders(ctx, target); err != nil {
		return fmt.Errorf("demo: orders: %w", err)
	}
	if db != nil {
		if err := r.mysql(ctx, db); err != nil {
			return fmt.Errorf("demo: MySQL: %w", err)
		}
	} else {
		r.report.Skipped = append(r.report.Skipped, "MySQL, because "+reason)
		r.say("skipped: MySQL, because %s", reason)
	}
	r.report.Seconds = time.Since(began).Seconds()
	return r.finish(ctx)
}

// finish prints the sum, and waits where the node is to be kept.
func (r *run) finish(ctx context.Context) error {
	failed := 0
	for _, c := range r.report.Checks {
		if !c.OK {
			failed++
		}
	}
	if r.o.JSON {
		enc := json.NewEncoder(r.o.Out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r.report); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if r.o.Keep {
		r.say("")
		r.say("the node goes on until you press Ctrl-C:")
		r.say("  %s/topics   %s/connectors   %s/groups   %s/metrics", r.node.url, r.node.url, r.node.url, r.node.url)
		r.say("  curl -s %s/search/library -H 'Content-Type: application/json' -d '{\"query\":\"warranty of the battery\"}'", r.node.url)
		<-ctx.Done()
	}
	last := []string{fmt.Sprintf("demo: %d checks, %d failed, in %.0f s", len(r.report.Checks), failed, r.report.Seconds)}
	for _, s := range r.report.Skipped {
		last = append(last, "skipped: "+s)
	}
	r.say("")
	r.say("%s", strings.Join(last, "; "))
	if failed > 0 {
		return ErrFailed
	}
	return nil
}

func (r *run) say(format string, args ...any) {
	if !r.o.JSON {
		fmt.Fprintf(r.o.Out, format+"\n", args...)
	}
}

func (r *run) begin(part, what string) {
	r.part = part
	r.say("")
	r.say("%s: %s", part, what)
}

// check notes whether something is as it should be.
func (r *run) check(ok bool, format string, args ...any) {
	c := Check{Part: r.part, What: fmt.Sprintf(format, args...), OK: ok}
	r.report.Checks = append(r.report.Checks, c)
	mark := "  ok    "
	if !ok {
		mark = "  FAILED"
	}
	r.say("%s %s", mark, c.What)
}

// until asks again until cond holds or the time is up; an error ends it.
func until(ctx context.Context, limit time.Duration, cond func() (bool, error)) (took time.Duration, ok bool, err error) {
	began := time.Now()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err = cond(); ok || err != nil {
			return time.Since(began), ok, err
		}
		if time.Since(began) > limit {
			return time.Since(began), false, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return time.Since(began), false, ctx.Err()
		}
	}
}
