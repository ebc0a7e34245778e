package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/connectors"
)

// script changes two tables in every way that there is.
var script = []string{
	"INSERT INTO shop.a VALUES (1, 'one'), (2, 'two'), (3, 'three')",
	"UPDATE shop.a SET v = CONCAT(v, '!') WHERE id > 1",
	"UPDATE shop.a SET id = 10 WHERE id = 3",
	"DELETE FROM shop.a WHERE id = 1",
	"BEGIN; INSERT INTO shop.a VALUES (4, 'x'); ROLLBACK",
	"BEGIN; INSERT INTO shop.a VALUES (5, 'y'); SAVEPOINT s; INSERT INTO shop.a VALUES (6, 'z'); ROLLBACK TO s; INSERT INTO shop.b VALUES ('k', 5, NULL); COMMIT",
	"BEGIN; UPDATE shop.a SET v = 'tx' WHERE id = 2; DELETE FROM shop.a WHERE id = 2; INSERT INTO shop.a VALUES (2, 'again'); INSERT INTO shop.other VALUES (1); UPDATE shop.b SET n = n + 1; COMMIT",
	"REPLACE INTO shop.a VALUES (2, 'replaced')",
	"INSERT INTO shop.a VALUES (2, 'dup') ON DUPLICATE KEY UPDATE v = 'updated'",
	"INSERT INTO shop.nokey VALUES (1, 'q'), (1, 'r')",
	"UPDATE shop.nokey SET t = 's' WHERE t = 'r'",
	"CREATE TABLE shop.made AS SELECT id, v FROM shop.a",
	"ALTER TABLE shop.a ADD COLUMN w INT DEFAULT 7 FIRST, DROP COLUMN v",
	"INSERT INTO shop.a (id) VALUES (11)",
	"CREATE TABLE shop.later (id INT PRIMARY KEY, s VARCHAR(10)); INSERT INTO shop.later VALUES (1, 'l')",
	"DELETE FROM shop.b",
	"TRUNCATE TABLE shop.made",
}

const scriptEvents = `c a {"id":1,"v":"one"}
c a {"id":2,"v":"two"}
c a {"id":3,"v":"three"}
u a {"id":2,"v":"two!"}
u a {"id":3,"v":"three!"}
d a {"id":3,"v":"three!"}
- {"id":3}
c a {"id":10,"v":"three!"}
d a {"id":1,"v":"one"}
- {"id":1}
c a {"id":5,"v":"y"}
c b {"k":"k","n":5,"x":null}
u a {"id":2,"v":"tx"}
d a {"id":2,"v":"tx"}
- {"id":2}
c a {"id":2,"v":"again"}
u b {"k":"k","n":6,"x":null}
u a {"id":2,"v":"replaced"}
u a {"id":2,"v":"updated"}
c nokey {"n":1,"t":"q"}
c nokey {"n":1,"t":"r"}
d nokey {"n":1,"t":"r"}
- {"n":1,"t":"r"}
c nokey {"n":1,"t":"s"}
c made {"id":2,"v":"updated"}
c made {"id":5,"v":"y"}
c made {"id":10,"v":"three!"}
c a {"w":7,"id":11}
c later {"id":1,"s":"l"}
d b {"k":"k","n":6,"x":null}
- {"k":"k"}
`

func scriptTables() []string {
	return []string{
		"CREATE TABLE shop.a (id INT PRIMARY KEY, v VARCHAR(20))",
		"CREATE TABLE shop.b (k VARCHAR(10) PRIMARY KEY, n INT, x INT)",
		"CREATE TABLE shop.nokey (n INT, t TEXT)",
		"CREATE TABLE shop.other (id INT PRIMARY KEY)",
	}
}

// TestChanges reads the script's changes, then again from every position that was
// ever stored: exactly the rest comes, byte for byte but for the time of reading.
func TestChanges(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Exec(scriptTables()...)
	r := read(t, s, map[string]any{"snapshot.mode": "no_data", "table.exclude.list": `shop\.OTHER`})
	r.open()
	if err := r.step(); err != nil || len(r.events) != 0 || len(r.positions) != 1 {
		t.Fatal(err, r.events, r.positions)
	}
	first := maps.Clone(r.positions)
	s.Exec(script...)
	want := strings.Count(scriptEvents, "\n")
	r.until(want)
	if diff := cmp.Diff(scriptEvents, r.lines(0)); diff != "" {
		t.Fatal(diff)
	}
	replay(t, r.events)
	r.close()

	// One row at a time, and on from every place on the way.
	type stop struct {
		events    int
		positions map[string][]byte
	}
	stops := []stop{}
	one := read(t, s, r.config)
	one.positions = first
	one.open()
	src := one.src.(*source)
	for n := 0; n < want; {
		src.limit = 1
		if err := one.step(); err != nil {
			t.Fatal(err)
		}
		if n = len(one.events); n < want {
			saved := map[string][]byte{}
			for k, v := range one.positions {
				saved[k] = v
			}
			stops = append(stops, stop{n, saved})
		}
	}
	if len(stops) < 20 {
		t.Errorf("%d places only", len(stops))
	}
	for _, st := range stops {
		again := read(t, s, r.config)
		again.positions = map[string]rawMessage{}
		for k, v := range st.positions {
			again.positions[k] = v
		}
		again.open()
		again.until(want - st.events)
		for i, o := range again.events {
			if a, b := shown(&o), shown(&r.events[st.events+i]); a != b {
				t.Fatalf("from %s: event %d is\n%s\nnot\n%s", st.positions, i, a, b)
			}
		}
		again.close()
	}
}

// shown is an event without the time at which it was read.
func shown(o *connectors.Out) string {
	data := string(o.Event.Data)
	if i := strings.LastIndex(data, `,"ts_ms":`); i >= 0 {
		data = data[:i]
	}
	return fmt.Sprint(o.Topic, o.Event.ID, o.Event.Source, o.Event.Type, o.Event.Subject, o.Event.Time, o.Event.Key, data)
}

// TestLiveSnapshot changes tables while the snapshot runs, which is broken off and
// resumed at random: the events make exactly the tables in the end, none comes
// twice, every change follows from the state before it.
func TestLiveSnapshot(t *testing.T) {
	t.Parallel()
	for _, lock := range []bool{false, true} {
		t.Run(fmt.Sprintf("lock %v", lock), func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY, v INT)", "CREATE TABLE shop.m (id BIGINT UNSIGNED PRIMARY KEY, v INT)",
				"CREATE TABLE shop.z (id INT, k VARCHAR(9) PRIMARY KEY, v INT)",
				"INSERT INTO shop.a SELECT seq * 2, 0 FROM shop.seq_1_to_3000", "INSERT INTO shop.m SELECT seq + 18446744073709540000, 0 FROM shop.seq_1_to_3000",
				"INSERT INTO shop.z SELECT seq, CONCAT('k', seq), 0 FROM shop.seq_1_to_700")
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 1))
			r := read(t, s, map[string]any{"snapshot.fetch.size": 100})
			r.lock = lock
			writing, stop := context.WithCancel(t.Context())
			wrote := make(chan error, 1)
			var writes atomic.Int64
			go func() { wrote <- write(writing, s.DB, rand.New(rand.NewPCG(seed, 2)), &writes) }()
			r.open()
			// A table whose key is no integer begins anew when it is broken off, so only the
			// first two are broken off.
			for breaks := 0; ; {
				if err := r.step(); err != nil {
					t.Fatal(err)
				}
				at, err := load(&connectors.Env{Positions: r.positions}, "shop")
				if err != nil {
					t.Fatal(err)
				}
				if at.Snapshot == nil || !at.Snapshot.Running {
					t.Logf("broken off %d times, %d changes meanwhile, at %s", breaks, writes.Load(), r.positions)
					break
				}
				if at.Snapshot.Table < "shop.z" && rng.IntN(6) == 0 {
					breaks++
					r.close()
					r.open()
				}
			}
			for n := writes.Load(); writes.Load() < n+200; {
				if err := r.step(); err != nil {
					t.Fatal(err)
				}
			}
			stop()
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}
			s.Exec("INSERT INTO shop.z VALUES (0, 'end', 0)")
			for !strings.Contains(r.lines(max(0, len(r.events)-1)), `"end"`) {
				if err := r.step(); err != nil {
					t.Fatal(err)
				}
				if len(r.events) > 0 && strings.Contains(r.lines(len(r.events)-1), `"end"`) {
					break
				}
			}
			final := replay(t, r.events)
			check := read(t, s, map[string]any{"snapshot.mode": "initial_only"})
			check.open()
			for {
				if err := check.step(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(sorted(replay(t, check.events)), sorted(final)); diff != "" {
				t.Errorf("the events make other tables: %s", diff)
			}
		})
	}
}

// write changes the three tables until ctx ends.
func write(ctx context.Context, db execer, rng *rand.Rand, n *atomic.Int64) error {
	for ctx.Err() == nil {
		table := []string{"a", "m", "z"}[rng.IntN(3)]
		id := strconv.Itoa(rng.IntN(7000))
		if table == "m" {
			id = "18446744073709540000 + " + id
		}
		var q string
		switch kind := rng.IntN(4); {
		case kind == 0 && table == "z":
			q = "INSERT IGNORE INTO shop.z VALUES (" + id + ", 'n" + id + "', 1)"
		case kind == 0:
			q = "INSERT IGNORE INTO shop." + table + " VALUES (" + id + ", 1)"
		case kind == 1:
			q = "DELETE FROM shop." + table + " WHERE id = " + id
		case kind == 2 && table != "z":
			q = "UPDATE IGNORE shop." + table + " SET id = id + 1001 WHERE id = " + id
		default:
			q = "UPDATE shop." + table + " SET v = v + 1 WHERE id BETWEEN " + id + " AND " + id + " + 3"
		}
		if _, err := db.ExecContext(context.WithoutCancel(ctx), q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
		n.Add(1)
	}
	return nil
}

// TestHugeTransaction streams a transaction that is larger than the memory that may
// be used, in answers of bounded size.
func TestHugeTransaction(t *testing.T) {
	s := start(t)
	s.Exec("CREATE TABLE shop.big (id INT PRIMARY KEY, v VARCHAR(1000)) CHARACTER SET latin1")
	r := read(t, s, nil)
	r.open()
	if err := r.step(); err != nil {
		t.Fatal(err)
	}
	const rows = 100_000
	s.Exec(fmt.Sprintf("INSERT INTO shop.big SELECT seq, REPEAT('x', 1000) FROM shop.seq_1_to_%d", rows))
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, most, n := m.HeapAlloc, uint64(0), 0
	for n < rows {
		if err := r.step(); err != nil {
			t.Fatal(err)
		}
		for i := range r.events {
			if want := `{"id":` + strconv.Itoa(n+i+1) + `}`; r.events[i].Event.Key != want {
				t.Fatalf("event %d has the key %s", n+i, r.events[i].Event.Key)
			}
		}
		n += len(r.events)
		r.events = nil
		if n%20_000 < 1000 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	if most > before+32<<20 {
		t.Errorf("%d MiB are held while a transaction of 100 MiB is read", (most-before)>>20)
	}
}

// TestServerEnds restarts and kills the server while it streams.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY, v INT)", "INSERT INTO shop.a VALUES (0, 0)")
	r := read(t, s, nil)
	r.open()
	r.until(1)
	for round := range 4 {
		for i := range 50 {
			s.Exec(fmt.Sprintf("INSERT INTO shop.a VALUES (%d, 1)", round*100+i+1))
		}
		if round%2 == 0 {
			r.until(len(r.events) + 25 - len(r.events)%25 - 24) // somewhere in between
		}
		if round < 2 {
			s.Kill()
		} else {
			s.Stop()
		}
		for { // what is left, then the error
			if err := r.step(); err != nil {
				if !strings.Contains(err.Error(), "binlog") && !strings.Contains(err.Error(), "connection") {
					t.Errorf("an unclear error: %v", err)
				}
				break
			}
		}
		r.close()
		if _, err := r.tryOpen(); err == nil || !strings.Contains(err.Error(), "database.hostname: no connection to 127.0.0.1:") {
			t.Errorf("without a server: %v", err)
		}
		s.Restart()
		r.open()
	}
	r.until(1 + 4*50)
	if n := len(replay(t, r.events)); n != 201 {
		t.Errorf("%d rows", n)
	}
}

// TestStop ends reads that wait, and closes while the server does not answer.
func TestStop(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY)", "INSERT INTO shop.a VALUES (1)")
	r := read(t, s, nil)
	r.open()
	r.until(1)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	begin := time.Now()
	for {
		_, err := r.src.Read(ctx)
		if errors.Is(err, context.Canceled) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the read took %s", took)
	}
	r.close()

	// A server that does not answer must not hold up anything.
	r.config["connect.timeout"] = "2s"
	for _, mode := range []string{"initial", "no_data"} {
		r.positions, r.config["snapshot.mode"] = nil, mode
		r.open()
		if err := r.step(); err != nil {
			t.Fatal(err)
		}
		s.Freeze()
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		for err := error(nil); err == nil; {
			_, err = r.src.Read(ctx)
		}
		cancel()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the read took %s", took)
		}
		r.close() // says itself when it takes long
		begin = time.Now()
		if _, err := r.tryOpen(); err == nil || !strings.Contains(err.Error(), "no connection to 127.0.0.1:") {
			t.Errorf("a frozen server: %v", err)
		}
		if took := time.Since(begin); took > 6*time.Second {
			t.Errorf("the open took %s", took)
		}
		s.Thaw()
	}
}
