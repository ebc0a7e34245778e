package mysql

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/mysql/cell"
)

// The types of row events. The runtime knows by the prefix that they must not be
// skipped.
const (
	typeInsert = "millrace.row.insert"
	typeUpdate = "millrace.row.update"
	typeDelete = "millrace.row.delete"
	typeRead   = "millrace.row.read"
)

// envelopeVersion is the form of the data, told as source.version.
const envelopeVersion = "1"

// origin is where a row comes from.
type origin struct {
	id       string // of the event
	time     time.Time
	snapshot bool
	serverID uint32
	gtid     string
	place    // of the row event
	row      int
}

// maker makes events of rows.
type maker struct {
	flavor     string
	prefix     string
	tombstones bool
	now        func() time.Time

	names map[string]names // by the table's full name
	buf   []byte
}

// names are what all events of a table share.
type names struct{ topic, source, subject string }

func newMaker(c *config, flavor string, now func() time.Time) *maker {
	return &maker{flavor: flavor, prefix: c.Prefix, tombstones: c.Tombstones, now: now, names: map[string]names{}}
}

func (m *maker) namesOf(t *table) names {
	n, ok := m.names[t.full()]
	if !ok {
		n = names{
			topic:   m.prefix + "." + topicPart(t.db) + "." + topicPart(t.name),
			source:  "/mysql/" + url.PathEscape(m.prefix) + "/" + url.PathEscape(t.db) + "/" + url.PathEscape(t.name),
			subject: t.full(),
		}
		m.names[t.full()] = n
	}
	return n
}

// image is one state of a row: all of it, and its key.
type image struct {
	row []byte // a JSON object; nil = there is none
	key string
}

// image writes a row. live says that the values come from the binlog.
func (m *maker) image(t *table, values []any, live bool) (image, error) {
	if len(values) != len(t.columns) {
		return image{}, fmt.Errorf("table %s: a row of %d values for %d columns", t.full(), len(values), len(t.columns))
	}
	var im image
	var err error
	if im.row, err = t.appendRow(m.buf[:0], values, nil, live); err != nil {
		return im, err
	}
	m.buf = im.row[:0]
	im.row = append(make([]byte, 0, len(im.row)), im.row...)
	if len(t.key) == 0 {
		im.key = string(im.row)
		return im, nil
	}
	key, err := t.appendRow(m.buf[:0], values, t.key, live)
	im.key = string(key)
	return im, err
}

// appendRow writes columns of a row as a JSON object; nil is all.
func (t *table) appendRow(dst []byte, values []any, which []int, live bool) ([]byte, error) {
	n := len(which)
	if which == nil {
		n = len(t.columns)
	}
	dst = append(dst, '{')
	var err error
	for i := range n {
		at := i
		if which != nil {
			at = which[i]
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, t.columns[at].Label...)
		if dst, err = t.columns[at].Append(dst, values[at], live); err != nil {
			return dst, fmt.Errorf("table %s: %w", t.full(), err)
		}
	}
	return append(dst, '}'), nil
}

// change makes the events of one row: of an insert (no before), an update, a
// delete (no after), or a row that a snapshot read. An update that changes the key
// is a delete of the old and an insert of the new.
func (m *maker) change(out []connectors.Out, t *table, before, after image, o *origin) []connectors.Out {
	n := m.namesOf(t)
	put := func(id, typ, op, key string, before, after []byte) {
		out = append(out, connectors.Out{Topic: n.topic, Event: event.Event{
			ID: id, Source: n.source, Type: typ, Subject: n.subject, Time: o.time,
			ContentType: "application/json", Key: key, Data: m.envelope(t, op, before, after, o),
		}})
	}
	remove := func(id string) {
		put(id, typeDelete, "d", before.key, before.row, nil)
		if m.tombstones {
			out = append(out, connectors.Out{Topic: n.topic, Event: event.Event{
				ID: id + "/t", Source: n.source, Type: typeDelete, Subject: n.subject, Time: o.time, Key: before.key,
			}})
		}
	}
	switch {
	case o.snapshot:
		put(o.id, typeRead, "r", after.key, nil, after.row)
	case before.row == nil:
		put(o.id, typeInsert, "c", after.key, nil, after.row)
	case after.row == nil:
		remove(o.id)
	case before.key != after.key:
		remove(o.id + "/d")
		put(o.id, typeInsert, "c", after.key, nil, after.row)
	default:
		put(o.id, typeUpdate, "u", after.key, before.row, after.row)
	}
	return out
}

// envelope is an event's data.
func (m *maker) envelope(t *table, op string, before, after []byte, o *origin) []byte {
	b := make([]byte, 0, len(before)+len(after)+len(m.prefix)+len(t.db)+len(t.name)+len(o.gtid)+320)
	object := func(name string, v []byte) {
		b = append(b, name...)
		if v == nil {
			b = append(b, "null"...)
		} else {
			b = append(b, v...)
		}
	}
	text := func(name, v string) { b = event.AppendQuoted(append(b, name...), v) }
	number := func(name string, v int64) { b = strconv.AppendInt(append(b, name...), v, 10) }
	object(`{"before":`, before)
	object(`,"after":`, after)
	text(`,"op":`, op)
	text(`,"source":{"version":`, envelopeVersion)
	text(`,"connector":`, m.flavor)
	text(`,"name":`, m.prefix)
	number(`,"ts_ms":`, o.time.UnixMilli())
	text(`,"snapshot":`, strconv.FormatBool(o.snapshot))
	text(`,"db":`, t.db)
	text(`,"table":`, t.name)
	number(`,"server_id":`, int64(o.serverID))
	if o.gtid == "" {
		b = append(b, `,"gtid":null`...)
	} else {
		text(`,"gtid":`, o.gtid)
	}
	text(`,"file":`, o.File)
	b = strconv.AppendUint(append(b, `,"pos":`...), o.Pos, 10)
	number(`,"row":`, int64(o.row))
	number(`},"ts_ms":`, m.now().UnixMilli())
	return append(b, '}')
}

// number is the text of a value that is an integer, without quotes.
func number(c *cell.Column, v any, live bool) (string, error) {
	b, err := c.Append(nil, v, live)
	if err != nil || len(b) == 0 {
		return "", err
	}
	if b[0] == '"' {
		var s string
		err := json.Unmarshal(b, &s)
		return s, err
	}
	return string(b), nil
}
