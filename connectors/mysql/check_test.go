package mysql

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/mysql/mariadbtest"
)

// fails opens and reads, and returns the error.
func (r *reader) fails() string {
	r.t.Helper()
	src, err := r.tryOpen()
	if err != nil {
		return err.Error()
	}
	r.src = src
	defer r.close()
	for range 10 {
		if err := r.step(); err != nil {
			return err.Error()
		}
	}
	r.t.Errorf("no error, but %s", r.lines(0))
	return ""
}

func holds(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("%q does not hold %q", got, p)
		}
	}
}

// TestMessages lacks one thing after the other.
func TestMessages(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY)", "INSERT INTO shop.a VALUES (1)",
		"CREATE USER few@'127.0.0.1'", "GRANT SELECT ON *.* TO few@'127.0.0.1'",
		"CREATE USER some@'127.0.0.1'", "GRANT SELECT, BINLOG MONITOR ON *.* TO some@'127.0.0.1'",
		"CREATE USER blind@'127.0.0.1'", "GRANT BINLOG MONITOR, REPLICATION SLAVE ON *.* TO blind@'127.0.0.1'")
	as := func(user, password string) string {
		return read(t, s, map[string]any{"database.user": user, "database.password": password}).fails()
	}
	holds(t, as(mariadbtest.User, "wrong"), "database.user", "Access denied")
	holds(t, as("few", ""), "SHOW BINARY LOGS", "GRANT REPLICATION SLAVE, BINLOG MONITOR")
	holds(t, as("some", ""), "GRANT REPLICATION SLAVE ON *.*")
	holds(t, read(t, s, map[string]any{"database.port": 1}).fails(), "database.hostname: no connection to 127.0.0.1:1")
	for variable, c := range map[string]struct{ value, back, want string }{
		"binlog_format":    {"MIXED", "ROW", `binlog_format is "MIXED" and must be "ROW": SET GLOBAL binlog_format = 'ROW'`},
		"binlog_row_image": {"MINIMAL", "FULL", `binlog_row_image is "MINIMAL" and must be "FULL": SET GLOBAL`},
	} {
		s.Exec("SET GLOBAL " + variable + " = '" + c.value + "'")
		holds(t, read(t, s, nil).fails(), c.want)
		s.Exec("SET GLOBAL " + variable + " = '" + c.back + "'")
	}
	without := mariadbtest.Start(t, "--skip-log-bin")
	holds(t, read(t, without, nil).fails(), `log_bin is "OFF" and must be "ON"`)

	// A table that cannot be read is not there for who may not see it.
	r := read(t, s, map[string]any{"database.user": "blind", "database.password": "", "snapshot.mode": "initial_only"})
	holds(t, r.fails(), "EOF")
	if len(r.events) != 0 {
		t.Errorf("%s", r.lines(0))
	}
}

// TestRefused are changes in the binlog that no row can be made of.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY, v INT)", "CREATE TABLE shop.free (id INT PRIMARY KEY, v INT)",
		"CREATE TABLE shop.packed (id INT PRIMARY KEY, v VARCHAR(100) COMPRESSED, w INT)")
	only := map[string]any{"snapshot.mode": "no_data", "table.include.list": "shop.a,shop.packed"}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"SET SESSION binlog_format = 'STATEMENT'; UPDATE shop.a SET v = 2", []string{"logged as text (\"UPDATE shop.a SET v = 2\")", "binlog_format = ROW"}},
		{"SET SESSION binlog_format = 'STATEMENT'; USE shop; INSERT INTO `a` VALUES (7, 1)", []string{"logged as text"}},
		{"SET SESSION binlog_row_image = 'MINIMAL'; INSERT INTO shop.a VALUES (1, 1); UPDATE shop.a SET v = 3 WHERE id = 1", []string{"table shop.a", "a part of a row", "binlog_row_image = FULL"}},
		{"XA START 'x'; INSERT INTO shop.a VALUES (3, 1); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'", []string{"table shop.a is changed by an XA transaction"}},
		{"INSERT INTO shop.packed VALUES (1, REPEAT('x', 100), 5)", []string{"table shop.packed: column v", "is not supported"}},
	} {
		r := read(t, s, only)
		r.open()
		if err := r.step(); err != nil {
			t.Fatal(err)
		}
		r.close()
		// The same of another table is nobody's business, and moves the position.
		free := strings.NewReplacer("shop.a ", "shop.free ", "`a`", "`free`", "shop.packed ", "shop.free (id) SELECT 99 -- ").Replace(c.query)
		exec(t, s, free)
		r.open()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		p, err := r.src.Read(ctx)
		cancel()
		if err != nil || len(p.Events) > 0 || len(p.Positions) != 1 {
			t.Errorf("%s: %v, %d events", free, err, len(p.Events))
		}
		r.close()
		r.positions = p.Positions
		exec(t, s, c.query)
		holds(t, r.fails(), c.want...)
		exec(t, s, "DELETE FROM shop.free")
	}
}

// exec runs statements in a session of their own.
func exec(t *testing.T, s *mariadbtest.Server, query string) {
	t.Helper()
	conn, err := s.DB.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // in the pool again
	if _, err := conn.ExecContext(t.Context(), query+"; SET SESSION binlog_format = DEFAULT; SET SESSION binlog_row_image = DEFAULT"); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// TestPurged loses the binlog while the source is away.
func TestPurged(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY)", "INSERT INTO shop.a VALUES (1)")
	r := read(t, s, nil)
	r.open()
	r.until(1)
	r.close()
	s.Exec("INSERT INTO shop.a VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO shop.a VALUES (3)")
	for first := ""; first != "bin.000002"; { // not while the server still ends the dump
		s.Exec("PURGE BINARY LOGS TO 'bin.000002'")
		var size int
		if err := s.DB.QueryRowContext(t.Context(), "SHOW BINARY LOGS").Scan(&first, &size); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, r.fails(), "no longer has the binlog file bin.000001", "the first it has is bin.000002", "when_needed")
	if len(r.events) != 1 {
		t.Errorf("%s", r.lines(0))
	}
	r.config["snapshot.mode"] = "when_needed"
	r.open()
	r.until(1 + 3)
	s.Exec("INSERT INTO shop.a VALUES (4)")
	r.until(1 + 3 + 1)
	if got := r.lines(1); got != "r a {\"id\":1}\nr a {\"id\":2}\nr a {\"id\":3}\nc a {\"id\":4}\n" {
		t.Errorf("%s", got)
	}
	r.close()

	other := start(t, "--server-id=8")
	moved := read(t, other, nil)
	moved.positions = r.positions
	holds(t, moved.fails(), "is of server 7", "is server 8")
	r.config["snapshot.mode"] = "initial"
	for partition := range r.positions {
		r.positions[partition] = rawMessage(`{"server":"7","file":"bin.000002","pos":999999999}`)
	}
	holds(t, r.fails(), "is behind the file's end")
}

// TestFilters captures some tables of some databases.
func TestFilters(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Exec("CREATE DATABASE `Other-DB`", "CREATE DATABASE hidden", "CREATE TABLE hidden.a (id INT PRIMARY KEY)",
		"CREATE TABLE `Other-DB`.`täble 1` (id INT PRIMARY KEY)", "CREATE TABLE shop.orders (id INT PRIMARY KEY)", "CREATE TABLE shop.orders_old (id INT PRIMARY KEY)",
		"CREATE VIEW shop.seen AS SELECT 1", "CREATE SEQUENCE shop.numbers")
	fill := []string{"INSERT INTO hidden.a VALUES (?)", "INSERT INTO `Other-DB`.`täble 1` VALUES (?)", "INSERT INTO shop.orders VALUES (?)", "INSERT INTO shop.orders_old VALUES (?)"}
	insert := func(id string) {
		for _, q := range fill {
			s.Exec(strings.ReplaceAll(q, "?", id))
		}
		s.Exec("SELECT NEXT VALUE FOR shop.numbers")
	}
	insert("1")
	for _, c := range []struct {
		config map[string]any
		want   string // topics
	}{
		{map[string]any{"database.include.list": "shop, other-.*"}, "shop.Other-DB.t_ble_1 shop.shop.orders shop.shop.orders_old"},
		{map[string]any{"table.include.list": []string{`SHOP\.orders`, `hidden\..*`}}, "shop.hidden.a shop.shop.orders"},
		{map[string]any{"table.exclude.list": `.*\.orders.*,hidden.a`}, "shop.Other-DB.t_ble_1"},
	} {
		r := read(t, s, c.config)
		r.open()
		n := len(strings.Fields(c.want))
		r.until(n)
		insert(strconv.FormatInt(time.Now().UnixNano()%1e9, 10))
		r.until(2 * n)
		got := map[string]int{}
		for _, o := range r.events {
			got[o.Topic]++
		}
		for topic := range strings.FieldsSeq(c.want) {
			if got[topic] != 2 {
				t.Errorf("%v: %d events in %s; %v", c.config, got[topic], topic, got)
			}
		}
		r.close()
		s.Exec("DELETE FROM hidden.a WHERE id > 1", "DELETE FROM `Other-DB`.`täble 1` WHERE id > 1", "DELETE FROM shop.orders WHERE id > 1", "DELETE FROM shop.orders_old WHERE id > 1")
	}
}

// TestWithoutNames alters tables where the binlog tells no names: what is sure is
// read, what is not is refused.
func TestWithoutNames(t *testing.T) {
	t.Parallel()
	s := start(t, "--binlog-row-metadata=NO_LOG")
	s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY, v INT, w INT)", "CREATE TABLE shop.b (id INT PRIMARY KEY)")
	r := read(t, s, map[string]any{"snapshot.mode": "no_data"})
	r.open()
	if err := r.step(); err != nil {
		t.Fatal(err)
	}
	s.Exec("INSERT INTO shop.a VALUES (1, 2, 3)")
	r.until(1)
	s.Exec("ALTER TABLE shop.a CHANGE v w INT, CHANGE w v INT", "INSERT INTO shop.a (id, v, w) VALUES (2, 3, 2)")
	r.until(2)
	if got := r.lines(0); got != "c a {\"id\":1,\"v\":2,\"w\":3}\nc a {\"id\":2,\"w\":2,\"v\":3}\n" {
		t.Errorf("%s", got)
	}
	r.close()
	s.Exec("INSERT INTO shop.b VALUES (1)", "INSERT INTO shop.a VALUES (3, 1, 1)", "ALTER TABLE shop.a CHANGE v w INT, CHANGE w v INT")
	holds(t, r.fails(), "table shop.a was altered at bin.000001:", "after this change", "binlog_row_metadata = FULL")
	if got := r.lines(2); got != "c b {\"id\":1}\n" {
		t.Errorf("%s", got)
	}
	s.Exec("ALTER TABLE shop.a DROP COLUMN w")
	holds(t, r.fails(), "table shop.a had 3 columns in the binlog and has 2 now", "binlog_row_metadata = FULL")
}

// memory is a State in a map.
type memory map[string][]byte

func (m memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	v, ok := m[key]
	return v, ok, nil
}
func (m memory) Put(key string, value []byte) { m[key] = value }
func (m memory) Delete(key string)            { delete(m, key) }
func (m memory) Scan(context.Context, string) iter.Seq2[connectors.Entry, error] {
	return func(func(connectors.Entry, error) bool) {}
}

// TestReplicaID keeps the id, so that a task that takes over puts its forerunner
// out; two connectors do not disturb each other.
func TestReplicaID(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Exec("CREATE TABLE shop.a (id INT PRIMARY KEY)")
	state := memory{}
	r, other := read(t, s, nil), read(t, s, nil)
	r.state = state
	r.open()
	other.open()
	id := r.src.(*source).replica
	if id < 1<<20 || id == other.src.(*source).replica || len(state) != 1 {
		t.Errorf("ids %d and %d, state %q", id, other.src.(*source).replica, state)
	}
	s.Exec("INSERT INTO shop.a VALUES (1)")
	r.until(1)
	other.until(1)
	next := read(t, s, nil)
	next.state, next.positions = state, r.positions
	next.open()
	if got := next.src.(*source).replica; got != id {
		t.Errorf("the id is %d, then %d", id, got)
	}
	s.Exec("INSERT INTO shop.a VALUES (2)")
	next.until(1)
	other.until(2)
	// The first is put out, if not at once.
	for dumps, deadline := 0, time.Now().Add(20*time.Second); dumps != 2; {
		if err := s.DB.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'").Scan(&dumps); err != nil {
			t.Fatal(err)
		}
		if dumps < 2 || time.Now().After(deadline) {
			t.Fatalf("%d dumps", dumps)
		}
	}
}
