package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/mysql/mariadbtest"
)

type rawMessage = json.RawMessage

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// reader reads a source as the runtime does: it keeps what is stored.
type reader struct {
	t         *testing.T
	config    map[string]any
	positions map[string]json.RawMessage
	events    []connectors.Out
	src       connectors.Source
	lock      bool
	state     connectors.State
}

func (r *reader) open() {
	r.t.Helper()
	src, err := r.tryOpen()
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.src = src
}

func (r *reader) tryOpen() (connectors.Source, error) {
	src, err := Plugin().Source.Open(r.t.Context(), r.config, connectors.Env{
		Connector: "c", Tasks: 1, Positions: maps.Clone(r.positions), State: r.state, Now: time.Now, DataDir: r.t.TempDir(),
	})
	if err == nil {
		src.(*source).lock, src.(*source).saveEvery = r.lock, 100*time.Millisecond
	}
	return src, err
}

func (r *reader) close() {
	r.t.Helper()
	if r.src == nil {
		return
	}
	begin := time.Now()
	if err := r.src.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		r.t.Errorf("close took %s", took)
	}
	r.src = nil
}

// step stores one answer.
func (r *reader) step() error {
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	p, err := r.src.Read(ctx)
	if err != nil {
		return err
	}
	if len(p.Events) > maxEvents+3 {
		r.t.Errorf("an answer of %d events", len(p.Events))
	}
	r.events = append(r.events, p.Events...)
	if r.positions == nil {
		r.positions = map[string]json.RawMessage{}
	}
	maps.Copy(r.positions, p.Positions)
	return nil
}

// until reads until n events are there.
func (r *reader) until(n int) {
	r.t.Helper()
	for len(r.events) < n {
		if err := r.step(); err != nil {
			r.t.Fatalf("after %d of %d events: %v\n%s", len(r.events), n, err, r.lines(max(0, len(r.events)-5)))
		}
	}
	if len(r.events) > n {
		r.t.Fatalf("%d events, not %d:\n%s", len(r.events), n, r.lines(0))
	}
}

// lines shows events: op, key, after.
func (r *reader) lines(from int) string {
	var b strings.Builder
	for _, o := range r.events[from:] {
		b.WriteString(line(&o.Event) + "\n")
	}
	return b.String()
}

func line(e *event.Event) string {
	if e.Tombstone() {
		return "- " + e.Key
	}
	d := gjson.ParseBytes(e.Data)
	row := d.Get("after").Raw
	if row == "null" {
		row = d.Get("before").Raw
	}
	return d.Get("op").Str + " " + d.Get("source.table").Str + " " + row
}

// start runs a server, with a database shop.
func start(t *testing.T, args ...string) *mariadbtest.Server {
	t.Helper()
	s := mariadbtest.Start(t, args...)
	s.Exec("CREATE DATABASE shop")
	s.DB.SetMaxOpenConns(8)
	return s
}

func read(t *testing.T, s *mariadbtest.Server, more map[string]any) *reader {
	t.Helper()
	r := &reader{t: t, config: s.Config(more)}
	t.Cleanup(r.close)
	return r
}

// table is the state that events make, by key; it fails on events that do not
// follow from the state before: a second insert, a change of what is not there.
func replay(t *testing.T, events []connectors.Out) map[string]string {
	t.Helper()
	state, ids := map[string]string{}, map[string]bool{}
	for i := range events {
		e := &events[i].Event
		if err := e.Validate(); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
		if ids[e.Source+e.ID] {
			t.Errorf("the id %s comes twice", e.ID)
		}
		ids[e.Source+e.ID] = true
		if e.Tombstone() {
			continue
		}
		if err := event.CheckJSON(e.Data); err != nil {
			t.Fatalf("%s: %v", e.Data, err)
		}
		d := gjson.ParseBytes(e.Data)
		at := d.Get("source.db").Str + "." + d.Get("source.table").Str + e.Key
		before, after := d.Get("before"), d.Get("after")
		old, there := state[at]
		switch op := d.Get("op").Str; op {
		case "r", "c":
			if there {
				t.Errorf("%s of %s, which is there", op, at)
			}
			state[at] = after.Raw
		case "u":
			if old != before.Raw {
				t.Errorf("u of %s: before %s, but it was %q", at, before.Raw, old)
			}
			state[at] = after.Raw
		case "d":
			if old != before.Raw {
				t.Errorf("d of %s: before %s, but it was %q", at, before.Raw, old)
			}
			delete(state, at)
		}
	}
	return state
}

func sorted(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, fmt.Sprint(k, " ", v))
	}
	slices.Sort(out)
	return out
}
