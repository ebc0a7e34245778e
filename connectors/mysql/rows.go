package mysql

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"millrace/connectors"
)

// openRows is a row event being turned into events.
type openRows struct {
	event *replication.RowsEvent
	table *table
	place place
	row   int // the next
}

// tableMap remembers what table the rows to come are of.
func (s *stream) tableMap(ctx context.Context, raw []byte, e *replication.TableMapEvent) error {
	if !s.source.filter.captures(string(e.Schema), string(e.Table)) {
		return nil
	}
	name := string(e.Schema) + "." + string(e.Table)
	k := s.known[name]
	if k == nil || !bytes.Equal(k.raw, raw) {
		t, err := s.resolve(ctx, e)
		if err != nil {
			return err
		}
		k = &knownTable{raw: bytes.Clone(raw), table: t}
		s.known[name] = k
	}
	s.maps[e.TableID] = k.table
	return nil
}

// resolve says what the columns of a table are.
func (s *stream) resolve(ctx context.Context, e *replication.TableMapEvent) (*table, error) {
	if len(e.ColumnName) > 0 {
		return s.source.server.fromMap(ctx, e)
	}
	t, err := s.source.server.fromSchema(ctx, e)
	if err != nil {
		return nil, err
	}
	// What the server says now is true of the event if nothing altered the table since.
	to, err := s.source.server.current(ctx, s.source.server.db)
	if err != nil {
		return nil, err
	}
	if err := s.later.look(ctx, s.source, s.at.place, to); err != nil {
		return nil, err
	}
	if at, altered := s.later.tables[t.full()]; altered && (place{s.file, s.next}).before(at) {
		return nil, fmt.Errorf("table %s was altered at %s:%d, after this change: %s", t.full(), at.File, at.Pos, metadataFix)
	}
	return t, nil
}

// rowsEvent begins with the rows of one event, or counts it.
func (s *stream) rowsEvent(h *replication.EventHeader, e *replication.RowsEvent, start uint64) error {
	s.tx.event++
	if s.tx.time.IsZero() {
		s.tx.time = time.Unix(int64(h.Timestamp), 0).UTC()
	}
	if s.skip.events > 0 {
		s.skip.events--
		return nil
	}
	t := s.maps[e.TableID]
	if t == nil { // not captured
		s.skip.rows = 0
		s.at.Event, s.at.Row = s.tx.event, 0
		return nil
	}
	if s.tx.xa {
		return fmt.Errorf("table %s is changed by an XA transaction, which is not supported: leave the table out with table.exclude.list", t.full())
	}
	for _, skipped := range e.SkippedColumns {
		if len(skipped) > 0 {
			return fmt.Errorf("table %s: the binlog holds a part of a row only: keep binlog_row_image = FULL in all sessions, and delete the connector's offsets for a new snapshot", t.full())
		}
	}
	s.open = &openRows{event: e, table: t, place: place{s.file, start}, row: s.skip.rows}
	s.skip.rows = 0
	return nil
}

// rows turns rows of the open event into events, as many as the answer takes.
func (s *stream) rows(b *batch) error {
	r := s.open
	step := 1
	if r.event.Type() == replication.EnumRowsEventTypeUpdate {
		step = 2
	}
	n := len(r.event.Rows) / step
	for r.row < n && !b.full() {
		if err := s.row(b, r, r.event.Rows[r.row*step:(r.row+1)*step]); err != nil {
			return err
		}
		r.row++
		s.at.Event, s.at.Row = s.tx.event-1, r.row
	}
	if r.row >= n {
		s.open = nil
		s.at.Event, s.at.Row = s.tx.event, 0
	}
	return nil
}

func (s *stream) row(b *batch, r *openRows, values [][]any) error {
	m := s.source.maker
	var before, after image
	var err error
	if r.event.Type() != replication.EnumRowsEventTypeInsert {
		if before, err = s.image(r.table, values[0]); err != nil {
			return err
		}
	}
	if r.event.Type() != replication.EnumRowsEventTypeDelete {
		if after, err = s.image(r.table, values[len(values)-1]); err != nil {
			return err
		}
	}
	o := &origin{
		id: s.source.server.identity + ":" + s.at.File + ":" + strconv.FormatUint(s.at.Pos, 10) + ":" +
			strconv.Itoa(s.tx.event-1) + ":" + strconv.Itoa(r.row),
		time: s.tx.time, serverID: s.source.server.id, gtid: s.tx.gtid, place: r.place, row: r.row,
	}
	if before.row == nil && after.row == nil { // a later view of the snapshot has it
		return nil
	}
	b.add(func(out []connectors.Out) []connectors.Out { return m.change(out, r.table, before, after, o) })
	return nil
}

// image is a row as an event shows it; none where the snapshot has it already.
func (s *stream) image(t *table, values []any) (image, error) {
	if s.at.Snapshot != nil {
		key := ""
		if i := t.integer(); i >= 0 && len(values) > i {
			var err error
			if key, err = number(&t.columns[i], values[i], true); err != nil {
				return image{}, err
			}
		}
		if s.at.held(t.full(), key) {
			return image{}, nil
		}
	}
	return s.source.maker.image(t, values, true)
}
