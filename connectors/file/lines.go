package file

import (
	"io"
	"math"
	"os"
	"strconv"
	"unsafe"

	"millrace/bus/event"
	"millrace/connectors/formats"
)

// lines makes the events of one file's records: of each the same but for id, key
// and data.
type lines struct {
	formats.Records
	event  event.Event
	prefix string // of ids
	key    string // gjson path; "" = none
}

// newLines makes the reader of t's format.
func (s *source) newLines(t *tail) *lines {
	format := s.cfg.formatOf(t.name)
	l := &lines{
		Records: formats.New(formats.Options{
			Format: format, CloudEvents: s.cfg.CloudEvents == "auto",
			Delimiter: formats.Delimiter(s.cfg.Delimiter, t.name), Header: s.cfg.Header, Limit: int(s.cfg.MaxLine),
		}),
		prefix: t.id + ":", key: s.key,
		event: event.Event{Source: fileSource(t.name), Type: s.cfg.Type, Subject: s.cfg.Subject, ContentType: "application/json"},
	}
	if l.event.Type == "" {
		l.event.Type = "millrace.file.line"
	}
	if format == formats.Text {
		l.event.ContentType = "text/plain"
	}
	return l
}

// add puts the event of one record, which begins at the file's offset at, into b.
// The event's data may be a part of it. The id is cut from an arena, since an
// allocation for each would show. The error says why it is no event.
func (l *lines) add(record []byte, at int64, b *batch) error {
	e := b.next()
	*e = l.event
	ok, err := l.Read(record, at, e)
	if err != nil || !ok {
		b.undo()
		return err
	}
	if e.ID == "" {
		if len(b.ids)+len(l.prefix)+20 > cap(b.ids) {
			b.ids = make([]byte, 0, 40*maxEvents)
		}
		start := len(b.ids)
		b.ids = append(b.ids, l.prefix...)
		b.ids = strconv.AppendInt(b.ids, at, 10)
		e.ID = unsafe.String(&b.ids[start], len(b.ids)-start) // what is written of an arena never changes
		e.Key = formats.Key(e.Data, l.key)
	}
	b.bytes += len(e.Data)
	return nil
}

// resume prepares for reading f elsewhere than from its beginning.
func (l *lines) resume(f *os.File) error {
	return l.Resume(func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(f, 0, math.MaxInt64)), nil
	})
}
