package mysql

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millrace/connectors"
)

func TestHeld(t *testing.T) {
	t.Parallel()
	at := func(pos uint64) place { return place{"bin.000009", pos} }
	p := &position{place: at(50), Snapshot: &progress{Views: []view{
		{place: at(10)},
		{place: at(100), mark: mark{Table: "db.m", Last: "7"}},
		{place: place{"bin.000010", 4}, mark: mark{Table: "db.q"}},
	}}}
	for _, c := range []struct {
		table, number string
		at            place
		want          bool
	}{
		{"db.a", "1", at(50), false},
		{"db.m", "7", at(50), false},
		{"db.m", "8", at(50), true},
		{"db.m", "18446744073709551615", at(50), true},
		{"db.m", "-8", at(50), false},
		{"db.m", "", at(50), false},
		{"db.n", "", at(50), true},
		{"db.m", "8", at(100), false},
		{"db.q", "1", at(1 << 40), true},
		{"db.z", "", place{"bin.000010", 4}, false},
	} {
		p.place = c.at
		if got := p.held(c.table, c.number); got != c.want {
			t.Errorf("%s %s at %v: %v", c.table, c.number, c.at, got)
		}
	}
	p.place = at(1 << 33)
	if p.passed(); p.Snapshot == nil {
		t.Error("a view that is ahead is forgotten")
	}
	p.place = place{"bin.000010", 4}
	if p.passed(); p.Snapshot != nil {
		t.Error("a view that was passed is kept")
	}
	if !(place{"bin.999999", 9}).before(place{"bin.1000000", 4}) {
		t.Error("files are not compared by number")
	}
}

func TestStored(t *testing.T) {
	t.Parallel()
	p := &position{Server: "7", place: place{"bin.000001", 1 << 33}, Event: 2, Row: 3, GTID: "0-7-1", Snapshot: &progress{
		Running: true, TSms: 5, mark: mark{"db.t", "9"}, Views: []view{{place: place{"bin.000001", 4}}, {place: place{"bin.000002", 4}, mark: mark{"db.t", "1"}}},
	}}
	saved, err := p.saved("x")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"server":"7","file":"bin.000001","pos":8589934592,"event":2,"row":3,"gtid":"0-7-1","snapshot":{"running":true,"ts_ms":5,"table":"db.t","last":"9","views":[{"file":"bin.000001","pos":4},{"file":"bin.000002","pos":4,"table":"db.t","last":"1"}]}}`
	if got := string(saved[`{"server":"x"}`]); got != want {
		t.Errorf("%s", got)
	}
	back, err := load(&connectors.Env{Positions: saved}, "x")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back, cmp.AllowUnexported(position{}, progress{}, view{}, place{}, mark{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`{"file":3}`, `{"pos":4}`, `[]`} {
		if _, err := load(&connectors.Env{Positions: map[string]rawMessage{`{"server":"x"}`: rawMessage(bad)}}, "x"); err == nil || !strings.Contains(err.Error(), "the stored position "+bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestBeyond4GiB counts on where the binlog's own positions wrap.
func TestBeyond4GiB(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before uint64
		low    uint32
		want   uint64
	}{{4, 300, 300}, {math.MaxUint32 - 10, 50, 1<<32 + 50}, {1<<32 + 50, 99, 1<<32 + 99}, {3<<32 - 1, 0, 3 << 32}, {500, 400, 400}} {
		if got := extend(c.before, c.low); got != c.want {
			t.Errorf("%d after %d: %d, not %d", c.low, c.before, got, c.want)
		}
	}
	files := []logFile{{"bin.1", 5 << 30}, {"bin.2", 100}}
	s := &server{}
	for _, c := range []struct {
		at, want place
		gone     string
	}{
		{place{"bin.1", 4}, place{"bin.1", 4}, ""},
		{place{"bin.1", 5 << 30}, place{"bin.2", 4}, ""},
		{place{"bin.1", 9 << 29}, place{"bin.1", 9 << 29}, "no dump can begin"},
		{place{"bin.2", 101}, place{"bin.2", 101}, "behind the file's end"},
		{place{"bin.0", 4}, place{"bin.0", 4}, "no longer has the binlog file bin.0"},
	} {
		at := c.at
		if gone := s.enter(&at, files); at != c.want || !strings.Contains(gone, c.gone) || c.gone == "" && gone != "" {
			t.Errorf("%v: %v, %q", c.at, at, gone)
		}
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"  insert into x": "INSERT", "/* a */ /* b */update x": "UPDATE", "/*!50003 CREATE */": "", "# c": "", "XA START X'41'": "XA", "/* open": "",
	} {
		if got := firstWord([]byte(query)); got != want {
			t.Errorf("%s: %q", query, got)
		}
	}
	f, err := newFilter(&config{Tables: []string{`db\.orders`}})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]bool{
		"INSERT INTO orders VALUES (1)":                 true,
		"INSERT INTO `orders` VALUES (1)":               true,
		"UPDATE x, db.orders SET a = 1":                 true,
		"UPDATE other.orders SET a = 1":                 false,
		"INSERT INTO log VALUES ('orders', \"orders\")": false,
		`INSERT INTO log VALUES ('it\'s orders')`:       false,
		"INSERT INTO orders_old VALUES (1)":             false,
	} {
		if got := mentions(f, "db", query); got != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	if diff := cmp.Diff([]string{"a", "it's", `b\`, "x,y)", ""}, listed(`enum('a','it''s','b\\','x,y)','')`)); diff != "" {
		t.Error(diff)
	}
}

func FuzzStatements(f *testing.F) {
	for _, q := range []string{"INSERT INTO `a`.b VALUES ('x\\'')", "`", "'", "a.", "set('a", `enum('\`} {
		f.Add(q)
	}
	f.Fuzz(func(_ *testing.T, q string) { // none may panic or go on for ever
		for range namesIn("db", q) {
			continue
		}
		listed(q)
		firstWord([]byte(q))
	})
}
