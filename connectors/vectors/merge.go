package vectors

import (
	"context"
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"millrace/transforms/embed"
)

// merge is the work of one transaction: it takes entries in order and brings the
// documents they belong to forward.
type merge struct {
	tx    *sql.Tx
	facts facts
	dims  int
	model string
	docs  map[string]*doc
	stmts map[string]*sql.Stmt
	old   int // entries that were older than their documents
}

// doc is a document as it is stored, and the version of it that is coming in.
type doc struct {
	name  string
	known bool  // it is stored, or was
	at    place // of the stored version

	group   string
	next    map[int]*waiting // by number of the chunk
	nextAt  place            // the earliest of next
	waits   bool             // the file has waiting chunks of it
	stale   bool             // and they are of a version that is not next
	counted int              // chunks that next must have
}

// waiting is a chunk of the version that is coming in.
type waiting struct {
	at    place
	entry *entry // nil: it is in the file
}

func newMerge(ctx context.Context, tx *sql.Tx, dims int, model string) (*merge, error) {
	f, err := factsOf(ctx, tx)
	return &merge{tx: tx, facts: f, dims: dims, model: model, docs: map[string]*doc{}, stmts: map[string]*sql.Stmt{}}, err
}

func (m *merge) close() {
	for _, s := range m.stmts {
		_ = s.Close() // they end with the transaction
	}
}

// prepared keeps a statement for the transaction.
func (m *merge) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s := m.stmts[query]; s != nil {
		return s, nil
	}
	s, err := m.tx.PrepareContext(ctx, query)
	if err == nil {
		m.stmts[query] = s
	}
	return s, err
}

func (m *merge) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s, err := m.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(ctx, args...)
}

// rows calls f for each row of a query.
func (m *merge) rows(ctx context.Context, query string, f func(*sql.Rows) error, args ...any) error {
	s, err := m.prepared(ctx, query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// take brings one entry into its document. Invariants 4 and 11: what is older than
// what is stored is left out.
func (m *merge) take(ctx context.Context, e *entry) error {
	d, err := m.doc(ctx, e.Document)
	if err != nil {
		return err
	}
	if d.known && e.At.compare(&d.at) < 0 {
		m.old++
		return nil
	}
	if e.Total == 0 {
		if len(d.next) > 0 && e.At.compare(&d.nextAt) >= 0 {
			d.drop()
		}
		return m.store(ctx, d, e.At, nil)
	}
	if len(d.next) > 0 && !d.joins(e) {
		if e.At.compare(&d.nextAt) < 0 {
			m.old++
			return nil
		}
		d.drop()
	}
	if len(d.next) == 0 || e.At.compare(&d.nextAt) < 0 {
		d.nextAt = e.At
	}
	d.group, d.counted = e.Group, e.Total
	d.next[e.Seq] = &waiting{e.At, e}
	if len(d.next) < d.counted {
		return nil
	}
	entries, err := m.gather(ctx, d)
	if err != nil {
		return err
	}
	at := d.nextAt
	d.drop()
	return m.store(ctx, d, at, entries)
}

// joins reports whether an entry belongs to the version that is coming in. Chunks
// that name no version begin a new one where a number comes again.
func (d *doc) joins(e *entry) bool {
	if d.group != e.Group || d.counted != e.Total {
		return false
	}
	there := d.next[e.Seq]
	return there == nil || !strings.HasPrefix(e.Group, "of ") || e.At.compare(&there.at) <= 0
}

// drop forgets the version that is coming in.
func (d *doc) drop() {
	d.stale = d.stale || d.waits
	d.next, d.group, d.counted = map[int]*waiting{}, "", 0
}

// doc reads what the file knows of a document.
func (m *merge) doc(ctx context.Context, name string) (*doc, error) {
	if d := m.docs[name]; d != nil {
		return d, nil
	}
	d := &doc{name: name, next: map[int]*waiting{}}
	err := m.rows(ctx, `select at from documents where document = ?`, func(r *sql.Rows) error {
		var at string
		d.known = true
		return errors.Join(r.Scan(&at), json.Unmarshal([]byte(at), &d.at))
	}, name)
	if err != nil {
		return nil, err
	}
	err = m.rows(ctx, `select seq, grp, total, at from pending where document = ?`, func(r *sql.Rows) error {
		var seq int
		var at string
		w := &waiting{}
		if err := r.Scan(&seq, &d.group, &d.counted, &at); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(at), &w.at); err != nil {
			return err
		}
		if len(d.next) == 0 || w.at.compare(&d.nextAt) < 0 {
			d.nextAt = w.at
		}
		d.next[seq], d.waits = w, true
		return nil
	}, name)
	m.docs[name] = d
	return d, err
}

// gather returns a version that is complete.
func (m *merge) gather(ctx context.Context, d *doc) ([]*entry, error) {
	entries := make([]*entry, d.counted)
	for seq, w := range d.next {
		entries[seq] = w.entry
	}
	if !d.waits || d.stale {
		return entries, nil
	}
	err := m.rows(ctx, `select seq, entry from pending where document = ?`, func(r *sql.Rows) error {
		var seq int
		var raw string
		if err := r.Scan(&seq, &raw); err != nil {
			return err
		}
		if entries[seq] != nil {
			return nil
		}
		entries[seq] = &entry{}
		return json.Unmarshal([]byte(raw), entries[seq])
	}, d.name)
	return entries, err
}

// store replaces a document by entries, none of which deletes it.
func (m *merge) store(ctx context.Context, d *doc, at place, entries []*entry) error {
	if err := m.remove(ctx, d); err != nil {
		return err
	}
	for _, e := range entries {
		if err := m.insert(ctx, e); err != nil {
			return err
		}
	}
	d.known, d.at = true, at
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	_, err = m.exec(ctx, `insert or replace into documents (document, at, total) values (?, ?, ?)`, d.name, string(text), len(entries))
	return err
}

func (m *merge) remove(ctx context.Context, d *doc) error {
	var ids []int64
	err := m.rows(ctx, `select rowid from chunks where document = ?`, func(r *sql.Rows) error {
		ids = append(ids, 0)
		return r.Scan(&ids[len(ids)-1])
	}, d.name)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if m.facts.dims > 0 {
			if _, err := m.exec(ctx, `delete from vec where id = ?`, id); err != nil {
				return err
			}
		}
		if _, err := m.exec(ctx, `delete from fts where rowid = ?`, id); err != nil {
			return err
		}
		if _, err := m.exec(ctx, `delete from chunks where rowid = ?`, id); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) insert(ctx context.Context, e *entry) error {
	made, err := m.exec(ctx, `insert into chunks (document, seq, id, text, metadata) values (?, ?, ?, ?, ?)`, e.Document, e.Seq, e.ID, e.Text, e.Metadata)
	if err != nil {
		return err
	}
	id, err := made.LastInsertId()
	if err != nil {
		return err
	}
	titles := e.Title + "\n" + strings.Join(e.Path, "\n")
	if _, err := m.exec(ctx, `insert into fts (rowid, title, body) values (?, ?, ?)`, id, words(titles), words(e.Text)); err != nil {
		return err
	}
	if len(e.Vector) == 0 {
		return nil
	}
	if m.facts.dims == 0 {
		if err := m.facts.fix(ctx, m.tx, len(e.Vector), m.model); err != nil {
			return err
		}
	}
	if len(e.Vector) != m.facts.dims {
		return fmt.Errorf("an embedding has %d dimensions, but the store's vectors have %d", len(e.Vector), m.facts.dims)
	}
	if zero(e.Vector) { // near to nothing
		return nil
	}
	_, err = m.exec(ctx, `insert into vec (id, embedding) values (?, ?)`, id, blob(e.Vector))
	return err
}

// finish puts what is not complete into the file.
func (m *merge) finish(ctx context.Context) error {
	for _, d := range m.docs {
		if d.stale {
			if _, err := m.exec(ctx, `delete from pending where document = ?`, d.name); err != nil {
				return err
			}
		}
		for seq, w := range d.next {
			if w.entry == nil {
				continue
			}
			raw, err := json.Marshal(w.entry)
			if err != nil {
				return err
			}
			at, err := json.Marshal(w.at)
			if err != nil {
				return err
			}
			_, err = m.exec(ctx, `insert or replace into pending (document, seq, grp, total, at, entry) values (?, ?, ?, ?, ?, ?)`,
				d.name, seq, d.group, d.counted, string(at), string(raw))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// words is a text as the index takes it: its terms, with spaces between.
func words(text string) string {
	var b strings.Builder
	embed.Words(text, func(word string, _ bool) {
		b.WriteString(word)
		b.WriteByte(' ')
	})
	return b.String()
}

// blob is a vector as vec0 takes it.
func blob(vector []float32) []byte {
	b := make([]byte, 0, 4*len(vector))
	for _, v := range vector {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}
