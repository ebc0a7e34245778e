package mysql

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"millrace/schemas/spec"
)

// The snapshot modes.
const (
	modeInitial     = "initial"
	modeNoData      = "no_data"
	modeInitialOnly = "initial_only"
	modeWhenNeeded  = "when_needed"
)

type config struct {
	Host           string        `json:"database.hostname" doc:"The server's name or address." spec:"required,group=Connection,importance=high"`
	Port           int           `json:"database.port" doc:"The server's port." default:"3306" spec:"min=1,max=65535,group=Connection,importance=high"`
	User           string        `json:"database.user" doc:"The user to connect as; it needs SELECT on the tables, REPLICATION SLAVE and REPLICATION CLIENT (on MariaDB 10.5 and later BINLOG MONITOR), and on MySQL RELOAD for the snapshot." spec:"required,group=Connection,importance=high"`
	Password       spec.Secret   `json:"database.password" doc:"The user's password." spec:"group=Connection,importance=high"`
	SSLMode        string        `json:"database.ssl.mode" doc:"Whether connections are encrypted: disabled, preferred (if the server can, unverified), required (unverified) or verify_identity (the certificate must be valid for the host)." default:"preferred" spec:"enum=disabled|preferred|required|verify_identity,group=Connection"`
	ServerID       uint32        `json:"database.server.id" doc:"The id under which the source registers as a replica; no other replica of the server may have it. 0: a random one, kept for the connector." default:"0" spec:"group=Connection"`
	ConnectTimeout time.Duration `json:"connect.timeout" doc:"How long a connection may take." default:"30s" spec:"min=1s,max=10m,group=Connection"`

	Prefix        string   `json:"topic.prefix" doc:"The first part of every topic's name, and the name of this server in events and positions; changing it starts anew." spec:"required,importance=high"`
	Databases     []string `json:"database.include.list" doc:"Regular expressions; only databases whose whole name matches one are captured. Empty: all but the server's own." spec:"group=Tables,importance=high"`
	Tables        []string `json:"table.include.list" doc:"Regular expressions; only tables whose whole name, such as shop\\.orders, matches one are captured. Empty: all." spec:"group=Tables,importance=high"`
	TablesExclude []string `json:"table.exclude.list" doc:"Regular expressions; tables whose whole name matches one are left out. Cannot be set together with table.include.list." spec:"group=Tables"`

	SnapshotMode string `json:"snapshot.mode" doc:"initial: a snapshot first, then changes; no_data: changes from now on; initial_only: the snapshot alone; when_needed: as initial, and a new snapshot when the server no longer has the binlog at the stored position." default:"initial" spec:"enum=initial|no_data|initial_only|when_needed,group=Snapshot,importance=high"`
	FetchSize    int    `json:"snapshot.fetch.size" doc:"At most so many rows of a snapshot are stored at once." default:"1000" spec:"min=1,max=10000,group=Snapshot"`

	Tombstones bool `json:"tombstones.on.delete" doc:"Whether every delete is followed by a tombstone, an event with the same key and no data." default:"true" spec:"group=Events"`
}

// Check says what tags cannot.
func (c *config) Check() error {
	var problems []spec.Problem
	for _, list := range []struct {
		key      string
		patterns []string
	}{{"database.include.list", c.Databases}, {"table.include.list", c.Tables}, {"table.exclude.list", c.TablesExclude}} {
		for _, p := range list.patterns {
			if _, err := compile(p); err != nil && !spec.IsReference(p) {
				problems = append(problems, spec.Problem{Path: list.key, Msg: fmt.Sprintf("%q is not a regular expression: %v", p, err)})
			}
		}
	}
	if len(c.Tables) > 0 && len(c.TablesExclude) > 0 {
		problems = append(problems, spec.Problem{Path: "table.exclude.list", Msg: "cannot be set together with table.include.list: leave one out"})
	}
	if c.Prefix != topicPart(c.Prefix) && !spec.IsReference(c.Prefix) {
		problems = append(problems, spec.Problem{Path: "topic.prefix", Msg: "may hold letters, digits, dots, underscores and dashes only"})
	}
	if len(problems) > 0 {
		return &spec.Error{Problems: problems}
	}
	return nil
}

// compile makes a pattern that matches whole names, whatever their case.
func compile(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile("(?i)^(?:" + strings.TrimSpace(pattern) + ")$")
}

// topicPart is a name with what topics do not allow replaced by underscores.
func topicPart(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		default:
			return '_'
		}
	}, name)
}

// systemDatabase reports whether a database is the server's own; changes of such
// are never captured.
func systemDatabase(name string) bool {
	switch strings.ToLower(name) {
	case "mysql", "information_schema", "performance_schema", "sys":
		return true
	}
	return false
}

// filter says which tables are captured. It is safe for concurrent use.
type filter struct {
	databases, include, exclude []*regexp.Regexp
	none                        bool // captures nothing

	mu    sync.Mutex
	known map[string]bool // by database and table, a NUL between
}

func newFilter(c *config) (*filter, error) {
	f := &filter{known: map[string]bool{}}
	for list, patterns := range map[*[]*regexp.Regexp][]string{&f.databases: c.Databases, &f.include: c.Tables, &f.exclude: c.TablesExclude} {
		for _, p := range patterns {
			re, err := compile(p)
			if err != nil {
				return nil, fmt.Errorf("%q is not a regular expression: %w", p, err)
			}
			*list = append(*list, re)
		}
	}
	return f, nil
}

// captures reports whether a table is captured.
func (f *filter) captures(db, table string) bool {
	if f.none {
		return false
	}
	name := db + "\x00" + table
	f.mu.Lock()
	defer f.mu.Unlock()
	yes, known := f.known[name]
	if !known {
		if len(f.known) >= 100_000 { // bounded, whatever the server makes and drops
			clear(f.known)
		}
		full := db + "." + table
		yes = !systemDatabase(db) &&
			(len(f.databases) == 0 || anyMatch(f.databases, db)) &&
			(len(f.include) == 0 || anyMatch(f.include, full)) && !anyMatch(f.exclude, full)
		f.known[name] = yes
	}
	return yes
}

func anyMatch(patterns []*regexp.Regexp, name string) bool {
	for _, re := range patterns {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}
