package mysql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
)

// stream turns the binlog into events.
type stream struct {
	source *source
	dump   *dump
	at     *position // the source's own: as far as the answer being filled goes

	file   string // of the event at hand
	next   uint64 // where the event after it starts; more than 32 bits are counted on
	tx     transaction
	skip   skip                   // what of the first transaction is done already
	maps   map[uint64]*table      // captured tables by the id of the open statement
	known  map[string]*knownTable // by name, what the last TABLE_MAP was
	queue  []*replication.BinlogEvent
	open   *openRows // a row event of which a part is in an earlier answer
	later  definitions
	failed error     // what cannot be read
	saved  time.Time // when the last answer went
	moved  bool      // it is another now
}

// mariadbPreparedXA is the flag of a GTID event whose transaction is prepared only.
const mariadbPreparedXA = 64

// transaction is the open one.
type transaction struct {
	open  bool // events up to its end belong together
	xa    bool // it is prepared only
	gtid  string
	time  time.Time
	event int // row events so far, of all tables
}

type skip struct{ events, rows int }

type knownTable struct {
	raw   []byte // of the TABLE_MAP event
	table *table
}

func (s *source) startStream(ctx context.Context) error {
	d, err := s.server.startDump(ctx, &s.conf, s.replica, s.at.place, s.filter)
	if err != nil {
		return s.explain(err)
	}
	s.stream = &stream{
		source: s, dump: d, at: s.at, file: s.at.File, next: s.at.Pos, skip: skip{s.at.Event, s.at.Row},
		maps: map[uint64]*table{}, known: map[string]*knownTable{}, saved: time.Now(),
	}
	return nil
}

// tryDump checks that a dump is allowed.
func (s *source) tryDump(ctx context.Context, at place) error {
	d, err := s.server.startDump(ctx, &s.conf, s.replica, at, s.filter)
	if err != nil {
		return s.explain(err)
	}
	defer d.close()
	within, cancel := context.WithTimeout(ctx, s.conf.ConnectTimeout)
	defer cancel()
	if _, err := d.streamer.GetEvent(within); err != nil {
		return s.explain(err)
	}
	return nil
}

// explain says what an error of a dump means.
func (s *source) explain(err error) error {
	var refused *gomysql.MyError
	if !errors.As(err, &refused) {
		return fmt.Errorf("binlog: the connection to %s is lost: %w", s.server.addr, err)
	}
	switch refused.Code {
	case errPrivilege, errAccessUser:
		return fmt.Errorf("database.user: the server refuses to send its binlog: GRANT REPLICATION SLAVE ON *.* to the user: %w", err)
	case errBinlog:
		if strings.Contains(refused.Message, "server_id") || strings.Contains(refused.Message, "server_uuid") {
			return fmt.Errorf("database.server.id: another replica has the id %d: set an id that no other has: %w", s.replica, err)
		}
		return fmt.Errorf("binlog: the server cannot send it from the stored position on: set snapshot.mode to when_needed for a new snapshot, or delete the connector's offsets: %w", err)
	}
	return fmt.Errorf("binlog: %w", err)
}

// read fills b. It waits for a first event, then only for what is about to come;
// after a while without any it answers with the position alone.
func (s *stream) read(ctx context.Context, b *batch) error {
	var first time.Time // when b got its first event
	for !b.full() && s.failed == nil {
		switch { // other tables' changes may come without end
		case len(b.events) == 0 && s.moved && time.Since(s.saved) > s.source.saveEvery:
			s.saved, s.moved = time.Now(), false
			return nil
		case len(b.events) > 0 && first.IsZero():
			first = time.Now()
		case len(b.events) > 0 && time.Since(first) > 10*linger:
			s.saved, s.moved = time.Now(), false
			return nil
		}
		if s.open != nil {
			if s.failed = s.rows(b); s.failed != nil {
				break
			}
			continue
		}
		e, err := s.event(ctx, b)
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		if err := s.handle(ctx, e); err != nil {
			s.failed = fmt.Errorf("binlog %s:%d: %w", s.file, s.next, err)
			break
		}
	}
	if s.failed != nil && len(b.events) == 0 { // what came before goes first
		return s.failed
	}
	s.saved, s.moved = time.Now(), false
	return nil
}

// event returns the next event; nil when the answer should go.
func (s *stream) event(ctx context.Context, b *batch) (*replication.BinlogEvent, error) {
	if len(s.queue) > 0 {
		e := s.queue[0]
		s.queue = s.queue[1:]
		return e, nil
	}
	s.queue = s.dump.streamer.DumpEvents()
	if len(s.queue) > 0 {
		return s.event(ctx, b)
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	switch {
	case len(b.events) > 0:
		within, cancel = context.WithTimeout(ctx, linger)
	case s.moved:
		within, cancel = context.WithTimeout(ctx, s.source.saveEvery-time.Since(s.saved))
	}
	defer cancel()
	e, err := s.dump.streamer.GetEvent(within)
	switch {
	case err == nil:
		return e, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case within.Err() != nil && errors.Is(err, within.Err()):
		return nil, nil
	}
	s.failed = s.source.explain(err)
	return nil, nil
}

// handle takes one event of the binlog in.
func (s *stream) handle(ctx context.Context, e *replication.BinlogEvent) error {
	h := e.Header
	start := s.next
	if counts(h) {
		s.next = extend(s.next, h.LogPos)
		start = s.next - min(s.next, uint64(h.EventSize))
	}
	switch ev := e.Event.(type) {
	case *replication.RotateEvent:
		return s.rotate(string(ev.NextLogName), ev.Position)
	case *replication.MariadbGTIDEvent:
		s.begin(h, ev.GTID.String(), !ev.IsStandalone())
		s.tx.xa = ev.Flags&mariadbPreparedXA != 0
	case *replication.GTIDEvent:
		s.beginGTID(h, ev)
	case *replication.GtidTaggedLogEvent:
		s.beginGTID(h, &ev.GTIDEvent)
	case *replication.TransactionPayloadEvent:
		s.queue = append(ev.Events, s.queue...)
	case *replication.TableMapEvent:
		return s.tableMap(ctx, e.RawData[replication.EventHeaderSize:], ev)
	case *replication.RowsEvent:
		return s.rowsEvent(h, ev, start)
	case *replication.QueryEvent:
		return s.query(h, ev)
	case *replication.XIDEvent:
		return s.end()
	case *replication.GenericEvent:
		if h.EventType == replication.INCIDENT_EVENT {
			return errors.New("the server says that changes are missing here (an INCIDENT event): delete the connector's offsets for a new snapshot")
		}
		if h.EventType == replication.XA_PREPARE_LOG_EVENT {
			return s.end()
		}
	}
	return nil
}

// extend turns the low 32 bits of a position into all of it, given one before.
func extend(before uint64, low uint32) uint64 {
	pos := before&^(1<<32-1) | uint64(low)
	if pos < before && before-pos > 1<<31 {
		pos += 1 << 32
	}
	return pos
}

// rotate goes to another file, or is told where the dump begins.
func (s *stream) rotate(file string, pos uint64) error {
	s.file, s.next = file, pos
	if file == s.at.File {
		return nil
	}
	if s.tx.open {
		s.source.logger.Warn("a transaction was cut off by the server's end", "file", s.at.File, "pos", s.at.Pos)
	}
	return s.end()
}

func (s *stream) begin(h *replication.EventHeader, gtid string, open bool) {
	s.tx = transaction{open: open, gtid: gtid, time: time.Unix(int64(h.Timestamp), 0).UTC()}
}

func (s *stream) beginGTID(h *replication.EventHeader, e *replication.GTIDEvent) {
	gtid := ""
	if set, err := e.GTIDNext(); err == nil && e.GNO != 0 {
		gtid = set.String()
	}
	s.begin(h, gtid, false) // BEGIN follows, or a statement alone
	if us := e.ImmediateCommitTimestamp; us != 0 {
		s.tx.time = time.UnixMicro(int64(us)).UTC() //nolint:gosec // a time
	}
}

// end goes behind the open transaction.
func (s *stream) end() error {
	if s.skip != (skip{}) && s.tx.event > 0 {
		return fmt.Errorf("the stored position names row event %d, row %d of the transaction at %s:%d, which has less: it is not of this binlog", s.at.Event, s.at.Row, s.at.File, s.at.Pos)
	}
	s.at.place, s.at.Event, s.at.Row = place{s.file, s.next}, 0, 0
	if s.tx.gtid != "" {
		s.at.GTID = s.tx.gtid
	}
	s.at.passed()
	s.tx, s.moved = transaction{}, true
	clear(s.maps)
	return nil
}

// query is BEGIN, COMMIT, or a statement that the server logs as text.
func (s *stream) query(h *replication.EventHeader, e *replication.QueryEvent) error {
	word := firstWord(e.Query)
	switch word {
	case "BEGIN":
		if s.tx.time.IsZero() {
			s.begin(h, "", true)
		}
		s.tx.open = true
		return nil
	case "COMMIT", "ROLLBACK":
		if word == "ROLLBACK" && bytes.Contains(bytes.ToUpper(e.Query), []byte(" TO ")) {
			return nil
		}
		return s.end()
	case "SAVEPOINT", "RELEASE":
		return nil
	case "XA":
		s.tx.open, s.tx.xa = true, true
		if f := strings.Fields(strings.ToUpper(string(e.Query))); len(f) > 1 && (f[1] == "COMMIT" || f[1] == "ROLLBACK") {
			return s.end()
		}
		return nil
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD":
		if mentions(s.source.filter, string(e.Schema), string(e.Query)) {
			return fmt.Errorf("a change of a captured table is logged as text (%.80q): its rows are not known; keep binlog_format = ROW in all sessions, and delete the connector's offsets for a new snapshot", e.Query)
		}
	default:
		if defines(word) {
			clear(s.known)
		}
	}
	if !s.tx.open {
		return s.end()
	}
	return nil
}
