package rpc

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

// appendRequest is a bus.Batch.
type appendRequest struct{ batch bus.Batch }

func (m *appendRequest) encode(b []byte) []byte {
	b = appendBytes(b, m.batch.ID)
	b = binary.AppendUvarint(b, uint64(len(m.batch.Writes)))
	for i := range m.batch.Writes {
		w := &m.batch.Writes[i]
		b = appendBytes(b, w.Topic)
		b = binary.AppendUvarint(b, uint64(len(w.Events)))
		var prev *event.Event
		for j := range w.Events {
			b = event.AppendRecord(b, prev, &w.Events[j])
			prev = &w.Events[j]
		}
		b = binary.AppendUvarint(b, uint64(len(w.Links)))
		for j := range w.Links {
			l := &w.Links[j]
			b = appendRef(b, l.To)
			b = appendBytes(b, l.Key)
			b = appendInt(b, l.Attempt)
			b = event.AppendAttrs(b, l.Overlay)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(m.batch.Saves)))
	for i := range m.batch.Saves {
		c := &m.batch.Saves[i]
		b = appendOwner(b, c.Owner)
		b = binary.AppendVarint(b, c.Next)
		b = appendBytes(b, c.Follows)
		if c.Positions == nil {
			b = append(b, 0)
			continue
		}
		b = appendPositions(append(b, 1), c.Positions)
	}
	b = binary.AppendUvarint(b, uint64(len(m.batch.State)))
	for i := range m.batch.State {
		k := &m.batch.State[i]
		b = appendBytes(b, k.Space)
		b = appendBytes(b, k.Key)
		b = appendOptional(b, k.Value)
	}
	b = binary.AppendUvarint(b, uint64(len(m.batch.As)))
	for _, o := range m.batch.As {
		b = appendOwner(b, o)
	}
	return b
}

func (m *appendRequest) decode(r *reader) {
	m.batch.ID = r.string()
	for range r.count(3) {
		w := bus.Write{Topic: r.string()}
		var e event.Event
		for range r.count(2) {
			r.record(&e)
			w.Events = append(w.Events, e)
		}
		for range r.count(6) {
			r.item()
			l := bus.Link{To: r.ref(), Key: r.string(), Attempt: r.int()}
			l.Overlay = r.attrs()
			w.Links = append(w.Links, l)
		}
		m.batch.Writes = append(m.batch.Writes, w)
	}
	for range r.count(6) {
		c := bus.Checkpoint{Owner: r.owner(), Next: r.varint(), Follows: r.string()}
		if r.byte() != 0 {
			c.Positions = r.positions()
		}
		m.batch.Saves = append(m.batch.Saves, c)
	}
	for range r.count(3) {
		m.batch.State = append(m.batch.State, bus.Keyed{Space: r.string(), Key: r.string(), Value: r.optional()})
	}
	for range r.count(3) {
		m.batch.As = append(m.batch.As, r.owner())
	}
}

// appendAnswer is []bus.Appended; neighbours in one queue stand as one run.
type appendAnswer struct{ runs []run }

type run struct {
	topic  string
	queue  int
	first  int64
	length int64
}

func runsOf(at []bus.Appended) []run {
	var runs []run
	for _, a := range at {
		if n := len(runs); n > 0 {
			if l := &runs[n-1]; l.topic == a.Topic && l.queue == a.Queue && l.first+l.length == a.Offset {
				l.length++
				continue
			}
		}
		runs = append(runs, run{a.Topic, a.Queue, a.Offset, 1})
	}
	return runs
}

// appended lists n places; false: the runs hold another number.
func (m *appendAnswer) appended(n int) ([]bus.Appended, bool) {
	out := make([]bus.Appended, 0, n)
	for _, l := range m.runs {
		if l.length < 0 || l.length > int64(n-len(out)) {
			return nil, false
		}
		for i := range l.length {
			out = append(out, bus.Appended{Topic: l.topic, Queue: l.queue, Offset: l.first + i})
		}
	}
	return out, len(out) == n
}

func (m *appendAnswer) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(m.runs)))
	for _, l := range m.runs {
		b = appendBytes(b, l.topic)
		b = appendInt(b, l.queue)
		b = binary.AppendVarint(b, l.first)
		b = binary.AppendVarint(b, l.length)
	}
	return b
}

func (m *appendAnswer) decode(r *reader) {
	for range r.count(4) {
		m.runs = append(m.runs, run{r.string(), r.int(), r.varint(), r.varint()})
	}
}

// readRequest is what Read is asked.
type readRequest struct {
	from []bus.Cursor
	max  bus.Limit
}

func (m *readRequest) encode(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(m.from)))
	for _, c := range m.from {
		b = appendBytes(b, c.Topic)
		b = binary.AppendUvarint(b, c.ID)
		b = appendInt(b, c.Queue)
		b = binary.AppendVarint(b, c.Next)
	}
	b = appendInt(b, m.max.Records)
	b = appendInt(b, m.max.Bytes)
	return binary.AppendVarint(b, int64(m.max.Wait))
}

func (m *readRequest) decode(r *reader) {
	for range r.count(4) {
		m.from = append(m.from, bus.Cursor{Topic: r.string(), ID: r.uvarint(), Queue: r.int(), Next: r.varint()})
	}
	m.max = bus.Limit{Records: r.int(), Bytes: r.int(), Wait: time.Duration(r.varint())}
}

// scanRequest is what Scan is asked; keys may be any bytes.
type scanRequest struct {
	topic, prefix, after string
	limit                int
}

func (m *scanRequest) encode(b []byte) []byte {
	b = appendBytes(b, m.topic)
	b = appendBytes(b, m.prefix)
	b = appendBytes(b, m.after)
	return appendInt(b, m.limit)
}

func (m *scanRequest) decode(r *reader) {
	m.topic, m.prefix, m.after, m.limit = r.string(), r.string(), r.string(), r.int()
}

// records answers Read and Scan. Encoding stops once it takes max bytes (0 = no
// bound), but not before the first record; more then says that some were left
// out.
type records struct {
	recs []event.Record
	more bool
	max  int
}

func (m *records) encode(b []byte) []byte {
	flag := len(b)
	b = append(b, 0)
	var prev event.Record
	for i := range m.recs {
		r := &m.recs[i]
		start := len(b)
		topic := r.Topic
		if i > 0 && topic == prev.Topic {
			topic = "" // as before
		}
		b = appendBytes(b, topic)
		b = appendInt(b, r.Queue)
		b = binary.AppendVarint(b, r.Offset)
		b = appendInt(b, r.Attempt)
		b = appendRef(b, r.Origin)
		b = binary.AppendVarint(b, r.Stored.Unix())
		b = binary.AppendUvarint(b, uint64(r.Stored.Nanosecond()))
		b = event.AppendRecord(b, &prev.Event, &r.Event)
		if m.max > 0 && i > 0 && (len(b) > m.max || i == maxItems) {
			b[flag] = 1
			return b[:start]
		}
		prev = *r
	}
	if m.more {
		b[flag] = 1
	}
	return b
}

func (m *records) decode(r *reader) {
	m.more = r.byte() != 0
	var rec event.Record
	for len(r.b) > 0 {
		if t := r.string(); t != "" {
			rec.Topic = t
		}
		rec.Queue, rec.Offset, rec.Attempt, rec.Origin = r.int(), r.varint(), r.int(), r.ref()
		rec.Stored = r.time()
		r.record(&rec.Event)
		if !r.bad {
			m.recs = append(m.recs, rec)
		}
	}
}

// positions answers Positions.
type positions struct{ p map[string]json.RawMessage }

func (m *positions) encode(b []byte) []byte { return appendPositions(b, m.p) }
func (m *positions) decode(r *reader)       { m.p = r.positions() }

func appendPositions(b []byte, p map[string]json.RawMessage) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	for _, k := range slices.Sorted(maps.Keys(p)) {
		b = appendBytes(b, k)
		b = appendOptional(b, p[k])
	}
	return b
}

func (r *reader) positions() map[string]json.RawMessage {
	p := map[string]json.RawMessage{}
	for range r.count(2) {
		k := r.string()
		p[k] = r.optional()
	}
	return p
}

func appendOwner(b []byte, o bus.Owner) []byte {
	b = appendBytes(b, o.Group)
	b = appendBytes(b, o.Slot)
	return binary.AppendUvarint(b, o.Epoch)
}

func (r *reader) owner() bus.Owner {
	return bus.Owner{Group: r.string(), Slot: r.string(), Epoch: r.uvarint()}
}

func appendRef(b []byte, ref event.Ref) []byte {
	b = binary.AppendUvarint(b, ref.Topic)
	b = appendInt(b, ref.Queue)
	return binary.AppendVarint(b, ref.Offset)
}

func (r *reader) ref() event.Ref {
	return event.Ref{Topic: r.uvarint(), Queue: r.int(), Offset: r.varint()}
}

func (r *reader) time() time.Time {
	sec, nsec := r.varint(), r.uvarint()
	if nsec >= 1e9 {
		r.fail()
		return time.Time{}
	}
	return time.Unix(sec, int64(nsec)).UTC()
}

// record reads an event that follows the one in e.
func (r *reader) record(e *event.Event) {
	r.item()
	rest, err := event.DecodeRecord(r.b, e)
	if err != nil {
		r.fail()
		return
	}
	r.b = rest
}

func (r *reader) attrs() []event.Attr {
	attrs, rest, err := event.DecodeAttrs(r.b)
	if err != nil {
		r.fail()
		return nil
	}
	r.b = rest
	return attrs
}
