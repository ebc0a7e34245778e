package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"millrace/bus/event"
)

// csvRecords are CSV records: RFC 4180, with any one-byte delimiter and line ends of
// either kind. A quote is special at the beginning of a field only.
type csvRecords struct {
	delimiter byte
	header    bool
	limit     int
	columns   []string
	fields    [][]byte
}

var errOpenQuote = errors.New("a quote is opened and never closed")

// Split finds the end of the record. A quote that stays open to the end of all
// there will be costs its line only.
func (l *csvRecords) Split(b []byte, final bool) int {
	quoted, start := false, true // inside quotes; at the beginning of a field
	i := 0
	if bytes.HasPrefix(b, []byte(mark)) {
		i = len(mark)
	}
	for ; i < len(b); i++ {
		c := b[i]
		switch {
		case quoted:
			next := bytes.IndexByte(b[i:], '"')
			if next < 0 {
				if final {
					return splitLine(b, true)
				}
				return 0
			}
			i += next
			if i+1 < len(b) && b[i+1] == '"' {
				i++ // a doubled quote stands for itself
			} else {
				quoted = false
			}
		case c == '"' && start:
			quoted, start = true, false
		case c == l.delimiter:
			start = true
		case c == '\n':
			return i + 1
		default:
			start = false
		}
	}
	if !final {
		return 0
	}
	if quoted {
		return splitLine(b, true)
	}
	return len(b)
}

// Count is at least 1; a quoted field may hold line ends.
func (*csvRecords) Count(record []byte) int64 {
	return max(1, int64(bytes.Count(record, []byte("\n"))))
}

// Resume reads the header.
func (l *csvRecords) Resume(begin func() (io.ReadCloser, error)) error {
	if !l.header || l.columns != nil {
		return nil
	}
	r, err := begin()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it is only read
	var buf []byte
	for size := 64 << 10; ; size *= 2 {
		size = min(size, l.limit)
		start := len(buf)
		buf = append(buf, make([]byte, size-start)...)
		n, err := io.ReadFull(r, buf[start:])
		buf = buf[:start+n]
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		final := err != nil || size >= l.limit
		if end := l.Split(buf, final); end > 0 {
			if perr := l.parse(trimLine(buf[:end], 0)); perr != nil {
				return fmt.Errorf("header: %w", perr)
			}
			l.setColumns()
			return nil
		}
		if final {
			return errors.New("the file has no CSV header")
		}
	}
}

// Read makes a JSON object of strings.
func (l *csvRecords) Read(record []byte, at int64, e *event.Event) (bool, error) {
	record = trimLine(record, at)
	if len(record) == 0 {
		return false, nil
	}
	if err := l.parse(record); err != nil {
		return false, err
	}
	if l.columns == nil {
		l.setColumns()
		if l.header {
			return false, nil
		}
	}
	if len(l.fields) != len(l.columns) {
		return false, fmt.Errorf("the record has %d fields, the header %d", len(l.fields), len(l.columns))
	}
	data := make([]byte, 0, 2*len(record)+16*len(l.columns))
	for i, column := range l.columns {
		data = append(data, ","...)
		data = event.AppendQuoted(data, column)
		data = append(data, ':')
		data = event.AppendQuoted(data, string(l.fields[i]))
	}
	data[0] = '{'
	e.Data = append(data, '}')
	return true, nil
}

// parse cuts a record, without its line end, into l.fields.
func (l *csvRecords) parse(record []byte) error {
	l.fields = l.fields[:0]
	for {
		if len(record) == 0 || record[0] != '"' {
			end := bytes.IndexByte(record, l.delimiter)
			if end < 0 {
				l.fields = append(l.fields, record)
				return nil
			}
			l.fields = append(l.fields, record[:end])
			record = record[end+1:]
			continue
		}
		var field []byte
		record = record[1:]
		for {
			end := bytes.IndexByte(record, '"')
			if end < 0 {
				return errOpenQuote
			}
			field = append(field, record[:end]...)
			record = record[end+1:]
			if len(record) == 0 || record[0] != '"' {
				break
			}
			field = append(field, '"')
			record = record[1:]
		}
		l.fields = append(l.fields, field)
		switch {
		case len(record) == 0:
			return nil
		case record[0] != l.delimiter:
			return fmt.Errorf("field %d has text after its closing quote", len(l.fields))
		}
		record = record[1:]
	}
}

// setColumns names the columns by the fields, or by number without a header; a
// name that comes twice gets a number.
func (l *csvRecords) setColumns() {
	seen := map[string]bool{}
	l.columns = make([]string, len(l.fields))
	for i, field := range l.fields {
		name := string(field)
		if !l.header || name == "" {
			name = "column_" + strconv.Itoa(i+1)
		}
		for n, base := 2, name; seen[name]; n++ {
			name = base + "_" + strconv.Itoa(n)
		}
		seen[name] = true
		l.columns[i] = name
	}
}
