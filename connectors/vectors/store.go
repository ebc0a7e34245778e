package vectors

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"modernc.org/sqlite"
	_ "modernc.org/sqlite/vec" // has no other way in: it registers vec0 with SQLite
)

// schemaVersion is the file's layout.
const schemaVersion = "1"

// schema is the layout. vec comes once the length of the vectors is known; fts
// holds no text, only where the words are.
const schema = `
create table if not exists meta (key text primary key, value text not null) without rowid;
create table if not exists offsets (connector text not null, slot text not null, next integer not null, primary key (connector, slot)) without rowid;
create table if not exists documents (document text primary key, at text not null, total integer not null) without rowid;
create table if not exists chunks (rowid integer primary key, document text not null, seq integer not null, id text not null,
	text text not null, metadata text not null, unique (document, seq));
create table if not exists pending (document text not null, seq integer not null, grp text not null, total integer not null,
	at text not null, entry text not null, primary key (document, seq));
create virtual table if not exists fts using fts5 (title, body, content='', contentless_delete=1, tokenize='porter unicode61');
`

// connect opens the file. Writers take the lock when they begin, and wait for one
// another for up to a minute.
func connect(path string, readOnly bool) (*sql.DB, error) {
	q := url.Values{"_pragma": {"busy_timeout(60000)", "synchronous(full)"}, "_txlock": {"immediate"}}
	if readOnly {
		q = url.Values{"_pragma": {"busy_timeout(10000)", "query_only(1)"}}
	} else {
		q.Add("_pragma", "journal_mode(wal)")
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	db.SetMaxOpenConns(1) // vec0 wants one writer
	return db, nil
}

// create opens the file for writing and lays it out.
func create(ctx context.Context, path string) (*sql.DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	db, err := connect(path, false)
	if err != nil {
		return nil, err
	}
	if err := layout(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("path: %s: %w", path, err), db.Close())
	}
	return db, nil
}

func layout(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return notStore(err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return notStore(err)
	}
	version, err := meta(ctx, tx, "schema")
	if err != nil {
		return err
	}
	switch version {
	case schemaVersion:
	case "":
		if err := setMeta(ctx, tx, "schema", schemaVersion); err != nil {
			return err
		}
	default:
		return fmt.Errorf("the store has layout %s, this program knows %s", version, schemaVersion)
	}
	return tx.Commit()
}

// notStore makes plain what SQLite says of files that are not its own.
func notStore(err error) error {
	var se *sqlite.Error
	if errors.As(err, &se) && se.Code()&0xff == 26 { // SQLITE_NOTADB
		return errors.New("the file is there and is no store of vectors: name another path")
	}
	return err
}

// querier is a *sql.DB or *sql.Tx.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// meta is a fact about the store; "" = not known yet.
func meta(ctx context.Context, q querier, key string) (string, error) {
	var value string
	err := q.QueryRowContext(ctx, `select value from meta where key = ?`, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return value, err
}

func setMeta(ctx context.Context, q querier, key, value string) error {
	_, err := q.ExecContext(ctx, `insert into meta (key, value) values (?, ?)`, key, value)
	return err
}

// facts are what all vectors of a store have in common; zero where there are none yet.
type facts struct {
	dims  int
	model string
}

func factsOf(ctx context.Context, q querier) (f facts, err error) {
	dims, err := meta(ctx, q, "dimensions")
	if err != nil || dims == "" {
		return f, err
	}
	if f.dims, err = strconv.Atoi(dims); err != nil {
		return f, fmt.Errorf("the store's dimensions: %w", err)
	}
	f.model, err = meta(ctx, q, "model")
	return f, err
}

// fix makes a store one of vectors of a length, by a model.
func (f *facts) fix(ctx context.Context, q querier, dims int, model string) error {
	query := fmt.Sprintf(`create virtual table vec using vec0(id integer primary key, embedding float[%d] distance_metric=cosine)`, dims)
	if _, err := q.ExecContext(ctx, query); err != nil {
		return err
	}
	f.dims, f.model = dims, model
	return errors.Join(setMeta(ctx, q, "dimensions", strconv.Itoa(dims)), setMeta(ctx, q, "model", model))
}
