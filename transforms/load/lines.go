package load

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// lines writes JSON values as lines "path: value".
type lines struct {
	b   strings.Builder
	max int
}

// value writes an outermost value; each element of a list is a paragraph.
func (w *lines) value(v any) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, item := range list {
		if w.b.Len() > 0 {
			w.b.WriteByte('\n')
		}
		if err := w.write("", item, 0); err != nil {
			return err
		}
	}
	return nil
}

func (w *lines) write(path string, v any, depth int) error {
	if depth > maxJSONDepth {
		return fmt.Errorf("%w: JSON is nested deeper than %d", ErrMalformed, maxJSONDepth)
	}
	if w.b.Len() > w.max { // paths are repeated in each line
		return fmt.Errorf("%w: its text is longer than %d bytes", ErrTooLarge, w.max)
	}
	var text string
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := w.write(join(path, key), v[key], depth+1); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if words, ok := inLine(v); ok {
			text = words
			break
		}
		for i := range v {
			if err := w.write(path+"["+strconv.Itoa(i)+"]", v[i], depth+1); err != nil {
				return err
			}
		}
		return nil
	case string:
		text = v
	case json.Number:
		text = v.String()
	case bool:
		text = strconv.FormatBool(v)
	}
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	if path != "" {
		w.b.WriteString(path + ": ")
	}
	w.b.WriteString(text + "\n")
	return nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// inLine writes a list of short words as one value.
func inLine(list []any) (string, bool) {
	parts := make([]string, 0, len(list))
	for _, item := range list {
		s, ok := item.(string)
		if !ok {
			n, isNumber := item.(json.Number)
			if !isNumber {
				return "", false
			}
			s = n.String()
		}
		if len(s) > 80 || strings.Contains(s, "\n") {
			return "", false
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", "), true
}
