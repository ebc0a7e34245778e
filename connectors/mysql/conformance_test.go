package mysql

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectorstest"
)

func TestSnapshotConformance(t *testing.T) {
	s := start(t)
	s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO shop.a SELECT seq, CONCAT('v', seq) FROM shop.seq_1_to_250",
		"CREATE TABLE shop.b (id BIGINT UNSIGNED PRIMARY KEY)", "INSERT INTO shop.b SELECT seq FROM shop.seq_1_to_150", "CREATE TABLE shop.c (id INT PRIMARY KEY)")
	config := s.Config(map[string]any{"snapshot.mode": "initial_only", "snapshot.fetch.size": 40})
	waiting := maps.Clone(config)
	waiting["snapshot.mode"] = "initial"
	connectorstest.Source(t, connectorstest.SourceCase{Plugin: Plugin(), Config: config, Waiting: waiting, Events: 400, Volatile: true})
}

// TestStreamConformance reads a stretch of the binlog, which has an end here.
func TestStreamConformance(t *testing.T) {
	s := start(t)
	s.Exec(scriptTables()...)
	config := s.Config(map[string]any{"snapshot.mode": "no_data"})
	from := ends(t, s.Config(nil))
	for _, q := range script {
		exec(t, s, q)
	}
	to := ends(t, s.Config(nil))
	plugin := Plugin()
	kind := *plugin.Source
	plugin.Source = &kind
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	kind.Open = func(ctx context.Context, config map[string]any, env connectors.Env) (connectors.Source, error) {
		env.Now = func() time.Time { return at }
		if len(env.Positions) == 0 {
			var err error
			if env.Positions, err = from.saved("shop"); err != nil {
				return nil, err
			}
		}
		src, err := Plugin().Source.Open(ctx, config, env)
		if err != nil {
			return nil, err
		}
		src.(*source).limit, src.(*source).saveEvery = 2, time.Millisecond
		e := &ending{Source: src, to: to.place}
		return e, e.look(env.Positions)
	}
	connectorstest.Source(t, connectorstest.SourceCase{Plugin: plugin, Config: config, Events: 31 + 1})
}

// ends is where the binlog ends.
func ends(t *testing.T, conf map[string]any) *position {
	t.Helper()
	r := &reader{t: t, config: maps.Clone(conf)}
	r.config["snapshot.mode"] = "no_data"
	r.open()
	defer r.close()
	if err := r.step(); err != nil {
		t.Fatal(err)
	}
	p, err := load(&connectors.Env{Positions: r.positions}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ending is a source that ends at a place.
type ending struct {
	connectors.Source
	to   place
	done bool
}

func (e *ending) Read(ctx context.Context) (connectors.Produced, error) {
	if err := ctx.Err(); err != nil {
		return connectors.Produced{}, err
	}
	if e.done {
		return connectors.Produced{}, io.EOF
	}
	p, err := e.Source.Read(ctx)
	if err == nil {
		err = e.look(p.Positions)
	}
	return p, err
}

func (e *ending) look(positions map[string]json.RawMessage) error {
	p, err := load(&connectors.Env{Positions: positions}, "shop")
	if err != nil || p == nil {
		return fmt.Errorf("position %s: %w", positions, err)
	}
	e.done = !p.before(e.to)
	return nil
}
