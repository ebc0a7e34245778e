package mysql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/bus/table"
	"millrace/connectors"
	"millrace/connectors/mysql"
	"millrace/connectors/mysql/mariadbtest"
	"millrace/workers"
)

// childEnv, set to a data directory, makes TestKills the process that is killed.
const childEnv = "MILLRACE_MYSQL_TEST_CHILD"

// work runs a bus with one worker until ctx ends.
func work(ctx context.Context, dir string, use func(*bus.Bus) error) (err error) {
	b, err := bus.Open(dir, bus.Options{Lease: time.Second}) //nolint:contextcheck // it takes none
	if err != nil {
		return err
	}
	defer func() {
		if e := b.Close(); err == nil {
			err = e
		}
	}()
	rt := workers.New(workers.Options{Client: b, Plugins: []connectors.Plugin{mysql.Plugin()}, WorkerID: "w", DataDir: dir + "/worker"})
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	err = use(b)
	cancel()
	if e := <-done; err == nil {
		err = e
	}
	return err
}

// define puts the connector.
func define(ctx context.Context, b *bus.Bus, s *mariadbtest.Server) error {
	config := map[string]string{"connector.class": "mysql-source", "name": "shop"}
	for k, v := range s.Config(map[string]any{"snapshot.fetch.size": 10}) {
		config[k] = fmt.Sprint(v)
	}
	defs, err := table.Open[workers.ConnectorDef](ctx, b, bus.TopicConfig, table.Options{})
	if err != nil {
		return err
	}
	return defs.Put(ctx, "shop", workers.ConnectorDef{Config: config, State: workers.StateRunning, Created: time.Now()})
}

// TestKills kills a process with a bus and a worker again and again, during the
// snapshot and the stream: the topic holds every change exactly once, in order.
func TestKills(t *testing.T) {
	if dir := os.Getenv(childEnv); dir != "" {
		t.Fatal(work(t.Context(), dir, func(*bus.Bus) error { <-t.Context().Done(); return nil }))
	}
	s := mariadbtest.Start(t)
	s.Exec("CREATE DATABASE shop", "CREATE TABLE shop.a (id INT PRIMARY KEY, v INT)", "INSERT INTO shop.a SELECT seq, 0 FROM shop.seq_1_to_10000")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	dir := t.TempDir()
	if err := work(t.Context(), dir, func(b *bus.Bus) error { return define(t.Context(), b, s) }); err != nil {
		t.Fatal(err)
	}
	n := 0
	change := func() {
		n++
		at := 1 + rng.IntN(4000)
		s.Exec(fmt.Sprintf("BEGIN; UPDATE shop.a SET v = %d WHERE id BETWEEN %d AND %d; INSERT INTO shop.a VALUES (%d, 0); DELETE FROM shop.a WHERE id = %d; COMMIT",
			n, at, at+rng.IntN(20), 30_000+n, 30_000+n-1))
	}
	kills := 0
	for deadline := time.Now().Add(soak(t)); time.Now().Before(deadline); kills++ {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKills$")
		child.Env = append(os.Environ(), childEnv+"="+dir)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		pause := time.NewTicker(5 * time.Millisecond)
		for range 20 + rng.IntN(250) {
			change()
			<-pause.C
		}
		pause.Stop()
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := child.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
	}
	s.Exec("INSERT INTO shop.a VALUES (99999, -1)")
	err := work(t.Context(), dir, func(b *bus.Bus) error { return verify(t, b, s, kills, n) })
	if err != nil {
		t.Fatal(err)
	}
}

// soak is how long random tests run.
func soak(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(os.Getenv("MILLRACE_SOAK"))
	if err != nil {
		return 5 * time.Second
	}
	return d
}

// verify reads the topic up to the last change and compares what it makes with the
// table.
func verify(t *testing.T, b *bus.Bus, s *mariadbtest.Server, kills, changes int) error {
	t.Helper()
	state, seen := map[string]string{}, map[string]bool{}
	next, reads := int64(0), 0
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for last := false; !last; {
		records, err := b.Read(ctx, []bus.Cursor{{Topic: "shop.shop.a", Next: next}}, bus.Limit{})
		if err != nil {
			return fmt.Errorf("after %d records: %w", next, err)
		}
		for i := range records {
			r := &records[i]
			if r.Offset != next || seen[r.ID] {
				t.Errorf("%s at %d, not %d; seen before: %v", r.ID, r.Offset, next, seen[r.ID])
			}
			next, seen[r.ID] = r.Offset+1, true
			if apply(t, state, &r.Event) == "r" {
				reads++
			}
			last = r.Key == `{"id":99999}`
		}
	}
	t.Logf("%d kills, %d transactions, %d records, %d of them read by the snapshot", kills, changes, next, reads)
	rows, err := s.DB.QueryContext(ctx, "SELECT id, v FROM shop.a")
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // read to the end
	n := 0
	for rows.Next() {
		var id, v int
		if err := rows.Scan(&id, &v); err != nil {
			return err
		}
		n++
		if got := state[`{"id":`+strconv.Itoa(id)+`}`]; got != fmt.Sprintf(`{"id":%d,"v":%d}`, id, v) {
			t.Errorf("row %d has v = %d, the topic makes %q", id, v, got)
		}
	}
	if n != len(state) {
		t.Errorf("%d rows, the topic makes %d", n, len(state))
	}
	return rows.Err()
}

// apply lets a record change the state; what comes must follow from it.
func apply(t *testing.T, state map[string]string, e *event.Event) string {
	t.Helper()
	if e.Tombstone() {
		return ""
	}
	if !json.Valid(e.Data) {
		t.Fatalf("%s", e.Data)
	}
	d := gjson.ParseBytes(e.Data)
	op, before := d.Get("op").Str, d.Get("before").Raw
	if before == "null" {
		before = ""
	}
	if state[e.Key] != before {
		t.Errorf("%s of %s (%s): before is %q, the state %q", op, e.Key, e.ID, before, state[e.Key])
	}
	if op == "d" {
		delete(state, e.Key)
	} else {
		state[e.Key] = d.Get("after").Raw
	}
	return op
}
