package file

import (
	"bytes"
	"encoding/base64"
	stdcsv "encoding/csv"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"millrace/bus/event"
)

// appendLine appends an event's line of NDJSON.
func appendLine(dst []byte, e *event.Event, whole bool) []byte {
	if whole {
		return append(event.AppendJSON(dst, e), '\n')
	}
	switch {
	case e.Data == nil:
		dst = append(dst, "null"...)
	case e.JSON() && len(e.Data) > 0:
		at := len(dst)
		dst = append(dst, e.Data...)
		for i := at; i < len(dst); i++ { // JSON has line ends between its tokens only
			n := bytes.IndexAny(dst[i:], "\r\n")
			if n < 0 {
				break
			}
			i += n
			dst[i] = ' '
		}
	case utf8.Valid(e.Data):
		dst = event.AppendQuoted(dst, string(e.Data))
	default:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, e.Data)
		dst = append(dst, '"')
	}
	return append(dst, '\n')
}

var errNoFields = errors.New("the data is no JSON object: csv writes the fields of one")

// columnsOf lists the fields of the data in their order.
func columnsOf(e *event.Event) ([]string, error) {
	data := gjson.ParseBytes(e.Data)
	if !e.JSON() || !data.IsObject() {
		return nil, errNoFields
	}
	var columns []string
	data.ForEach(func(key, _ gjson.Result) bool {
		columns = append(columns, key.String())
		return true
	})
	if len(columns) == 0 {
		return nil, errors.New("the data has no fields that could name the columns: set csv.columns")
	}
	return columns, nil
}

// rowOf puts the data's fields under the columns. Objects and arrays stay JSON;
// null and what is missing is empty.
func rowOf(e *event.Event, columns []string) ([]string, error) {
	data := gjson.ParseBytes(e.Data)
	if !e.JSON() || !data.IsObject() {
		return nil, errNoFields
	}
	index := make(map[string]int, len(columns))
	for i, c := range columns {
		index[c] = i
	}
	row := make([]string, len(columns))
	var err error
	data.ForEach(func(key, value gjson.Result) bool {
		i, ok := index[key.String()]
		if !ok {
			err = fmt.Errorf("the data's field %q is no column of the file: name it in csv.columns or remove it", key.String())
			return false
		}
		if value.Type == gjson.String {
			row[i] = value.Str
		} else if value.Type != gjson.Null {
			row[i] = value.Raw
		}
		return true
	})
	return row, err
}

// appendRow appends a record of CSV.
func appendRow(dst []byte, row []string, delimiter byte) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	w := stdcsv.NewWriter(buf)
	w.Comma = rune(delimiter)
	if len(row) == 1 && row[0] == "" { // an empty line is no record
		buf.WriteString("\"\"\n")
		return buf.Bytes(), nil
	}
	if err := w.Write(row); err != nil {
		return dst, err
	}
	w.Flush()
	return buf.Bytes(), w.Error()
}

// parseHeader reads the columns of a file that was there before.
func parseHeader(line []byte, delimiter byte) ([]string, error) {
	r := stdcsv.NewReader(bytes.NewReader(line))
	r.Comma = rune(delimiter)
	return r.Read()
}
