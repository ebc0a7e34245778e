package mysql

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"millrace/connectors"
)

// place is a place in the binlog.
type place struct {
	File string `json:"file"`
	Pos  uint64 `json:"pos"`
}

// before compares places of one server. The files of a binlog differ in the
// number at their end.
func (p place) before(q place) bool {
	if p.File == q.File {
		return p.Pos < q.Pos
	}
	a, b := fileNumber(p.File), fileNumber(q.File)
	return a < b || a == b && p.File < q.File
}

func fileNumber(name string) uint64 {
	n, err := strconv.ParseUint(name[strings.LastIndexByte(name, '.')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// position is where a source stands: the place where the open transaction starts,
// and how many of its row events, and rows of the next one, are done.
type position struct {
	Server string `json:"server"`
	place
	Event int `json:"event,omitempty"`
	Row   int `json:"row,omitempty"`
	// GTID is that of the last whole transaction, to read.
	GTID     string    `json:"gtid,omitempty"`
	Snapshot *progress `json:"snapshot,omitempty"`
}

// progress is what a snapshot has done.
type progress struct {
	Running bool `json:"running,omitempty"`
	// TSms is when it began, in milliseconds.
	TSms int64 `json:"ts_ms"`
	mark       // rows up to here are done
	// Views are where in the binlog the data was read: from each view's mark on to
	// the next one's. The first is the place where the stream begins.
	Views []view `json:"views"`
}

// mark is a place in a snapshot: in tables by name, and in the table by its
// primary key where that is one integer. No Last means before the first row.
type mark struct {
	Table string `json:"table,omitempty"`
	Last  string `json:"last,omitempty"`
}

// view is a state of the data: all transactions before a place, none after it.
type view struct {
	place
	mark
}

// partition is the one key of a source's positions.
func partition(prefix string) string {
	b, err := json.Marshal(map[string]string{"server": prefix})
	if err != nil {
		return prefix // a string is always JSON
	}
	return string(b)
}

// load reads the stored position; nil where there is none.
func load(env *connectors.Env, prefix string) (*position, error) {
	raw := env.Positions[partition(prefix)]
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil //nolint:nilnil // none is an answer
	}
	p := &position{}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("the stored position %s cannot be read: %w", raw, err)
	}
	if p.File == "" {
		return nil, fmt.Errorf("the stored position %s names no binlog file: set file and pos, or delete the connector's offsets", raw)
	}
	if p.Snapshot != nil && len(p.Snapshot.Views) == 0 {
		p.Snapshot.Views = []view{{place: p.place}}
	}
	return p, nil
}

// saved is p in the form that is stored.
func (p *position) saved(prefix string) (map[string]json.RawMessage, error) {
	b, err := json.Marshal(p)
	return map[string]json.RawMessage{partition(prefix): b}, err
}

// held reports whether the snapshot has read a row as it was after the transaction
// that starts at p, so that the stream must leave the change out. number is the
// row's primary key where that is one integer.
func (p *position) held(table, number string) bool {
	if p.Snapshot == nil || len(p.Snapshot.Views) < 2 {
		return false
	}
	from := &p.Snapshot.Views[0]
	for i := range p.Snapshot.Views[1:] {
		if v := &p.Snapshot.Views[i+1]; table > v.Table || table == v.Table && (v.Last == "" || after(number, v.Last)) {
			from = v
		}
	}
	return p.before(from.place)
}

// passed forgets the views that the stream has passed.
func (p *position) passed() {
	if p.Snapshot == nil || p.Snapshot.Running {
		return
	}
	for i := range p.Snapshot.Views {
		if p.before(p.Snapshot.Views[i].place) {
			return
		}
	}
	p.Snapshot = nil
}

// after compares two integers in decimal; false where one is none.
func after(a, b string) bool {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	if errX == nil && errY == nil {
		return x > y
	}
	u, errU := strconv.ParseUint(a, 10, 64)
	v, errV := strconv.ParseUint(b, 10, 64)
	return errU == nil && (errV == nil && u > v || errV != nil && errY == nil)
}
