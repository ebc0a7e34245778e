package file

import (
	"bytes"
	"os"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/tidwall/gjson"

	"millrace/bus/event"
)

// lines is a format whose files are read line by line, or record by record.
type lines interface {
	// split returns the length of the first line with its end, or 0 when it is not
	// all there. final says that b is all there will be.
	split(b []byte, final bool) int
	// add puts the event of one line, which begins at the file's offset at, into b.
	// The event's data may be a part of line. The error says why it is no event.
	add(line []byte, at int64, b *batch) error
	// count is how many of the file's lines a line of the format takes.
	count(line []byte) int64
	// resume prepares for reading f elsewhere than from its beginning.
	resume(f *os.File) error
}

// newLines makes the reader of t's format.
func (s *source) newLines(t *tail) lines {
	format := s.cfg.formatOf(t.name)
	base := lineEvents{
		prefix: t.id + ":", key: s.key,
		event: event.Event{Source: fileSource(t.name), Type: s.cfg.Type, Subject: s.cfg.Subject, ContentType: "application/json"},
	}
	if base.event.Type == "" {
		base.event.Type = "millrace.file.line"
	}
	switch format {
	case csv:
		return &csvLines{lineEvents: base, delimiter: delimiter(s.cfg.Delimiter, t.name), header: s.cfg.Header, limit: int(s.cfg.MaxLine)}
	case text:
		base.event.ContentType = "text/plain"
		return &textLines{base}
	default:
		return &jsonLines{lineEvents: base, cloudEvents: s.cfg.CloudEvents == "auto"}
	}
}

// lineEvents makes events: of each line the same but for id, key and data.
type lineEvents struct {
	event  event.Event
	prefix string // of ids
	key    string // gjson path; "" = none
}

// put adds the event of data, at an offset. The id is cut from an arena, since an
// allocation for each would show.
func (l *lineEvents) put(data []byte, at int64, b *batch) error {
	e := l.event
	if len(b.ids)+len(l.prefix)+20 > cap(b.ids) {
		b.ids = make([]byte, 0, 40*maxEvents)
	}
	start := len(b.ids)
	b.ids = append(b.ids, l.prefix...)
	b.ids = strconv.AppendInt(b.ids, at, 10)
	e.ID = unsafe.String(&b.ids[start], len(b.ids)-start) // what is written of an arena never changes
	e.Data = data
	if l.key != "" {
		if v := gjson.GetBytes(data, l.key); v.Exists() && v.Type != gjson.Null {
			e.Key = v.String()
		}
	}
	b.add(&e)
	return nil
}

func splitLine(b []byte, final bool) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i + 1
	}
	if final {
		return len(b)
	}
	return 0
}

// mark is the byte order mark that some programs begin UTF-8 files with.
const mark = "\ufeff"

// trimLine takes off the line end, and a byte order mark at a file's beginning.
func trimLine(line []byte, at int64) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if at == 0 {
		line = bytes.TrimPrefix(line, []byte(mark))
	}
	return line[:len(line):len(line)]
}

// jsonLines are NDJSON.
type jsonLines struct {
	lineEvents
	cloudEvents bool
}

func (*jsonLines) split(b []byte, final bool) int { return splitLine(b, final) }
func (*jsonLines) count([]byte) int64             { return 1 }
func (*jsonLines) resume(*os.File) error          { return nil }

// validJSON is event.CheckJSON, about twice as fast where the brackets are so few
// that gjson's recursion is bounded.
func validJSON(b []byte) bool {
	if bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) > 1000 {
		return event.CheckJSON(b) == nil
	}
	return gjson.ValidBytes(b) && utf8.Valid(b)
}

func (l *jsonLines) add(line []byte, at int64, b *batch) error {
	line = trimLine(line, at)
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	if !validJSON(line) {
		if err := event.CheckJSON(line); err != nil { // says where
			return err
		}
	}
	if l.cloudEvents && bytes.Contains(line, []byte(`"specversion"`)) && isCloudEvent(line) {
		e, err := event.ParseJSON(line)
		if err != nil {
			return err
		}
		b.add(&e)
		return nil
	}
	return l.put(line, at, b)
}

// isCloudEvent reports whether a JSON value is an object with the required
// attributes of a CloudEvent.
func isCloudEvent(line []byte) bool {
	for _, v := range gjson.GetManyBytes(line, "specversion", "id", "source", "type") {
		if v.Type != gjson.String || v.Str == "" {
			return false
		}
	}
	return true
}

// textLines are lines of plain text.
type textLines struct{ lineEvents }

func (*textLines) split(b []byte, final bool) int { return splitLine(b, final) }
func (*textLines) count([]byte) int64             { return 1 }
func (*textLines) resume(*os.File) error          { return nil }

func (l *textLines) add(line []byte, at int64, b *batch) error {
	line = trimLine(line, at)
	if len(line) == 0 {
		return nil
	}
	return l.put(line, at, b)
}
