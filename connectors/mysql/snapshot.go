package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/connectors/mysql/cell"
)

// snapshot reads the captured tables, one after the other, as they are at one
// place of the binlog.
type snapshot struct {
	server *server
	maker  *maker
	conn   *sql.Conn
	stmt   *sql.Stmt
	rows   *sql.Rows // of tables[0]; nil before it is begun
	tables []*table  // still to read
	id     string    // what all ids of the snapshot begin with
	began  time.Time
	count  int // rows read of tables[0]
}

// view begins a transaction that sees the data at one place, which it returns.
// MariaDB tells the place inside the transaction; elsewhere a global read lock is
// held while the transaction begins.
func (s *server) view(ctx context.Context, conn *sql.Conn, lock bool) (p place, err error) {
	exec := func(query string) {
		if err == nil {
			if _, e := conn.ExecContext(ctx, query); e != nil {
				err = s.privilege(e, query)
			}
		}
	}
	exec("SET SESSION character_set_results = NULL") // texts come as they are stored
	exec("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
	if s.mariadb && !lock {
		exec("START TRANSACTION WITH CONSISTENT SNAPSHOT")
		if err != nil {
			return p, err
		}
		p, known, err := snapshotStatus(ctx, conn)
		if err != nil || known {
			return p, err
		}
		exec("ROLLBACK")
	}
	exec("FLUSH TABLES WITH READ LOCK")
	if err != nil {
		return p, err
	}
	exec("START TRANSACTION WITH CONSISTENT SNAPSHOT")
	if err == nil {
		p, err = s.current(ctx, conn)
	}
	_, unlock := conn.ExecContext(ctx, "UNLOCK TABLES")
	return p, errors.Join(err, unlock)
}

// snapshotStatus asks where in the binlog a MariaDB transaction's view is.
func snapshotStatus(ctx context.Context, conn *sql.Conn) (p place, known bool, err error) {
	rows, err := conn.QueryContext(ctx, "SHOW STATUS LIKE 'binlog_snapshot_%'")
	if err != nil {
		return p, false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return p, false, err
		}
		switch strings.ToLower(name) {
		case "binlog_snapshot_file":
			p.File = value
		case "binlog_snapshot_position":
			if p.Pos, err = strconv.ParseUint(value, 10, 64); err != nil {
				return p, false, err
			}
		}
	}
	return p, p.File != "", rows.Err()
}

// startSnapshot begins a snapshot or, where at holds one, goes on with it: a
// table whose key is one integer after the last row, any other from its start.
func (s *source) startSnapshot(ctx context.Context) error {
	conn, err := s.server.db.Conn(ctx)
	if err != nil {
		return err
	}
	sn := &snapshot{server: s.server, maker: s.maker, conn: conn}
	s.snapshot = sn
	at, err := s.server.view(ctx, conn, s.lock)
	if err != nil {
		return err
	}
	tables, err := s.server.tables(ctx, s.filter)
	if err != nil {
		return err
	}
	if s.at == nil || s.at.Snapshot == nil || !s.at.Snapshot.Running {
		s.at = &position{Server: s.server.identity, place: at, Snapshot: &progress{Running: true, TSms: s.now().UnixMilli(), Views: []view{{place: at}}}}
		s.logger.Info("snapshot begins", "file", at.File, "pos", at.Pos, "tables", len(tables))
	} else {
		pr := s.at.Snapshot
		for len(tables) > 0 && tables[0].full() < pr.Table {
			tables = tables[1:]
		}
		if len(tables) > 0 && tables[0].full() == pr.Table && pr.Last != "" {
			if err := s.server.load(ctx, tables[0]); err != nil {
				return err
			}
			if tables[0].integer() < 0 { // the key was another
				pr.Last = ""
			}
		}
		// A view from which nothing was read yet is replaced.
		for n := len(pr.Views); n > 1 && pr.Views[n-1].mark == pr.mark; n-- {
			pr.Views = pr.Views[:n-1]
		}
		pr.Views = append(pr.Views, view{place: at, mark: pr.mark})
		s.logger.Info("snapshot goes on", "file", at.File, "pos", at.Pos, "table", pr.Table, "after", pr.Last, "tables", len(tables))
	}
	sn.tables = tables
	sn.began = time.UnixMilli(s.at.Snapshot.TSms).UTC()
	first := s.at.Snapshot.Views[0].place
	sn.id = fmt.Sprintf("%s:%s:%d:snapshot:", s.server.identity, first.File, first.Pos)
	return nil
}

// begin asks for the rows of the next table, in the order of its primary key.
func (sn *snapshot) begin(ctx context.Context, last string) error {
	t := sn.tables[0]
	if err := sn.server.load(ctx, t); err != nil {
		return err
	}
	if len(t.columns) == 0 {
		return nil // dropped meanwhile
	}
	var columns, order []string
	for i := range t.columns {
		c := &t.columns[i]
		if c.Kind == cell.KindUnknown {
			return fmt.Errorf("table %s: column %s: type %s is not supported: leave the table out with table.exclude.list", t.full(), c.Name, c.DataType)
		}
		columns = append(columns, quoteName(c.Name))
	}
	for _, i := range t.key {
		order = append(order, columns[i])
	}
	query := "SELECT " + strings.Join(columns, ", ") + " FROM " + quoteName(t.db) + "." + quoteName(t.name)
	if last != "" {
		if _, err := strconv.ParseInt(last, 10, 64); err != nil {
			if _, err := strconv.ParseUint(last, 10, 64); err != nil {
				return fmt.Errorf("the stored position names the key %q, which is no integer", last)
			}
		}
		query += " WHERE " + order[0] + " > " + last
	}
	if len(order) > 0 {
		query += " ORDER BY " + strings.Join(order, ", ")
	}
	var err error
	// A prepared statement answers in binary: floats are exact.
	if sn.stmt, err = sn.conn.PrepareContext(ctx, query); err != nil {
		return sn.server.privilege(err, "table "+t.full())
	}
	if sn.rows, err = sn.stmt.QueryContext(ctx); err != nil {
		return sn.server.privilege(err, "table "+t.full())
	}
	sn.count = 0
	return nil
}

// read fills b with rows, and moves the progress along. done says that all tables
// have been read.
func (sn *snapshot) read(ctx context.Context, b *batch, pr *progress) (done bool, err error) {
	for !b.full() {
		if len(sn.tables) == 0 {
			return true, nil
		}
		t := sn.tables[0]
		if sn.rows == nil {
			if pr.Table != t.full() {
				pr.mark = mark{Table: t.full()}
			}
			if err := sn.begin(ctx, pr.Last); err != nil {
				return false, err
			}
		}
		if sn.rows != nil && sn.rows.Next() {
			if err := sn.row(b, pr, t); err != nil {
				return false, err
			}
			continue
		}
		if err := sn.finish(); err != nil {
			return false, fmt.Errorf("table %s: %w", t.full(), err)
		}
		if sn.tables = sn.tables[1:]; len(sn.tables) > 0 {
			pr.mark = mark{Table: sn.tables[0].full()}
		}
	}
	return len(sn.tables) == 0, nil
}

func (sn *snapshot) row(b *batch, pr *progress, t *table) error {
	values := make([]any, len(t.columns))
	dest := make([]any, len(values))
	for i := range values {
		dest[i] = &values[i]
	}
	if err := sn.rows.Scan(dest...); err != nil {
		return fmt.Errorf("table %s: %w", t.full(), err)
	}
	im, err := sn.maker.image(t, values, false)
	if err != nil {
		return err
	}
	id := im.key
	if len(t.key) == 0 {
		id = digest(im.row) + ":" + strconv.Itoa(sn.count) // equal rows are told apart
	}
	o := &origin{id: sn.id + t.full() + ":" + id, time: sn.began, snapshot: true, serverID: sn.server.id, place: pr.Views[0].place}
	b.add(func(out []connectors.Out) []connectors.Out { return sn.maker.change(out, t, image{}, im, o) })
	sn.count++
	if i := t.integer(); i >= 0 {
		if pr.Last, err = number(&t.columns[i], values[i], false); err != nil {
			return err
		}
	}
	return nil
}

// finish ends the reading of one table.
func (sn *snapshot) finish() error {
	var err error
	if sn.rows != nil {
		err = errors.Join(sn.rows.Err(), sn.rows.Close())
	}
	if sn.stmt != nil {
		err = errors.Join(err, sn.stmt.Close())
	}
	sn.rows, sn.stmt = nil, nil
	return err
}

// close ends the transaction.
func (sn *snapshot) close() error {
	err := sn.finish()
	// A connection with another character set is not given back.
	_ = sn.conn.Raw(func(any) error { return driver.ErrBadConn })
	if e := sn.conn.Close(); !errors.Is(e, sql.ErrConnDone) {
		err = errors.Join(err, e)
	}
	return err
}
