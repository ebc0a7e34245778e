package load

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// csv makes a paragraph of each row: a line "header: value" for each cell that
// is not empty. The first row is the header.
func (d *Document) csv(name string, o Options) error {
	r := csv.NewReader(strings.NewReader(d.Text))
	r.FieldsPerRecord, r.ReuseRecord, r.LazyQuotes = -1, true, true
	r.Comma = comma(d.Text, name, d.MediaType)
	var header []string
	var out strings.Builder
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: CSV: %w", ErrMalformed, err)
		}
		if header == nil {
			for i, cell := range row {
				if cell = strings.TrimSpace(cell); cell == "" {
					cell = "column " + strconv.Itoa(i+1)
				}
				header = append(header, strings.Clone(cell))
			}
			continue
		}
		some := false
		for i, cell := range row {
			if cell = strings.TrimSpace(cell); cell == "" {
				continue
			}
			key := "column " + strconv.Itoa(i+1)
			if i < len(header) {
				key = header[i]
			}
			if !some && out.Len() > 0 {
				out.WriteByte('\n')
			}
			some = true
			out.WriteString(key + ": " + strings.ReplaceAll(cell, "\n", " ") + "\n")
		}
		if out.Len() > o.MaxBytes { // headers are repeated in each row
			return fmt.Errorf("%w: its text is longer than %d bytes", ErrTooLarge, o.MaxBytes)
		}
	}
	d.Text = out.String()
	return nil
}

// comma is what parts the cells of a row: a tab, or of comma and semicolon the
// one that the first line has more of.
func comma(text, name, mediaType string) rune {
	first, _, _ := strings.Cut(text, "\n")
	switch {
	case mediaType == "text/tab-separated-values" || strings.EqualFold(path.Ext(name), ".tsv"):
		return '\t'
	case strings.Count(first, ";") > strings.Count(first, ","):
		return ';'
	}
	return ','
}

// maxJSONDepth bounds nesting in JSON documents.
const maxJSONDepth = 100

// json makes text of JSON: one field's, or a line "path: value" for each value,
// with an empty line between the elements of the outermost list.
func (d *Document) json(o Options) error {
	dec := json.NewDecoder(strings.NewReader(d.Text))
	dec.UseNumber()
	w := lines{max: o.MaxBytes}
	var first any
	for n := 0; ; n++ { // a file may hold one value a line
		var v any
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: JSON: %w", ErrMalformed, err)
		}
		if n == 0 {
			first = v
		}
		if o.TextField == "" {
			if err := w.value(v); err != nil {
				return err
			}
		}
	}
	if o.TextField != "" {
		text, ok := at(first, o.TextField).(string)
		if !ok {
			return fmt.Errorf("%w: JSON: %s is not there, or is no text", ErrMalformed, o.TextField)
		}
		w.b.WriteString(text)
	}
	d.Text = w.b.String()
	for _, place := range []string{o.Title, "title", "name"} {
		if title, ok := at(first, place).(string); ok && place != "" {
			d.Title = strings.TrimSpace(title)
			break
		}
	}
	return nil
}

// at is the value at a dotted path; nil = none.
func at(v any, path string) any {
	for path != "" {
		var key string
		key, path, _ = strings.Cut(path, ".")
		switch m := v.(type) {
		case map[string]any:
			v = m[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(m) {
				return nil
			}
			v = m[i]
		default:
			return nil
		}
	}
	return v
}
