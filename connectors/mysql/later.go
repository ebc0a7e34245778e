package mysql

import (
	"context"
	"math/rand/v2"

	"github.com/go-mysql-org/go-mysql/replication"
)

// definitions are what is defined anew further on in the binlog than the stream
// has come. They are looked up only where the binlog does not tell columns.
type definitions struct {
	to     place            // looked up to here
	tables map[string]place // the last definition of each, by full name
}

// look reads the binlog ahead, without rows, from where it was looked at before.
func (d *definitions) look(ctx context.Context, s *source, from, to place) (err error) {
	if d.to.before(from) {
		d.to, d.tables = from, map[string]place{}
	}
	if !d.to.before(to) {
		return nil
	}
	other := uint32(1<<20) + rand.Uint32N(1<<31) //nolint:gosec // no secret; a second replica beside the stream
	dump, err := s.server.startDump(ctx, &s.conf, other, d.to, &filter{none: true})
	if err != nil {
		return s.explain(err)
	}
	defer dump.close()
	file, next := d.to.File, d.to.Pos
	for (place{file, next}).before(to) {
		e, err := dump.streamer.GetEvent(ctx)
		if err != nil {
			return s.explain(err)
		}
		switch ev := e.Event.(type) {
		case *replication.RotateEvent:
			file, next = string(ev.NextLogName), ev.Position
			continue
		case *replication.QueryEvent:
			if defines(firstWord(ev.Query)) {
				for db, table := range namesIn(string(ev.Schema), string(ev.Query)) {
					d.tables[db+"."+table] = place{file, extend(next, e.Header.LogPos)}
				}
			}
		}
		if counts(e.Header) {
			next = extend(next, e.Header.LogPos)
		}
	}
	d.to = to
	return nil
}

// defines reports whether a statement that begins with word may change what tables
// look like.
func defines(word string) bool {
	switch word {
	case "ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE", "":
		return true
	}
	return false
}

// counts reports whether an event stands in the file, so that its position counts.
func counts(h *replication.EventHeader) bool {
	return h.LogPos != 0 && h.Flags&replication.LOG_EVENT_ARTIFICIAL_F == 0 && h.EventType != replication.ROTATE_EVENT &&
		h.EventType != replication.HEARTBEAT_EVENT && h.EventType != replication.HEARTBEAT_LOG_EVENT_V2
}

// metadataFix is what helps where the binlog does not tell columns.
const metadataFix = "the binlog does not tell column names; set binlog_row_metadata = FULL on the server, and delete the connector's offsets for a new snapshot"
