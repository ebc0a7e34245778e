package transforms

import (
	"bytes"
	"errors"

	"millrace/bus/event"
)

// errBroken: data that should be JSON is not. Data is checked when it comes in,
// so walking over it checks only what it needs.
var errBroken = errors.New("data is not valid JSON")

// skipSpace returns the next place from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the place behind the string that begins at i, or -1.
func skipString(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++ // ends at the opening quote at the latest
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
}

// skipValue returns the place behind the value that begins at i, or -1. What is
// inside objects and lists is not checked.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	start := i
	for i < len(b) && inScalar(b[i]) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// inScalar reports whether numbers, true, false and null are made of such bytes.
func inScalar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '.' || c == '-' || c == '+' || c == 'E'
}

// item is one member of an object or element of a list, as places in the text.
type item struct {
	from       int // behind the comma or bracket before it
	key, kend  int // the key with its quotes; not in a list
	val, vend  int
	index      int  // in its object or list
	hasEscapes bool // in the key
}

// walk steps through the object or list that begins at i.
type walk struct {
	b    []byte
	i    int
	n    int
	list bool
	end  int // behind the closing bracket, once next has returned false without err
	err  error
}

// walkAt starts a walk; b[i] is '{' or '['.
func walkAt(b []byte, i int) walk { return walk{b: b, i: i + 1, list: b[i] == '['} }

func (w *walk) next(it *item) bool {
	i := skipSpace(w.b, w.i)
	closing := byte('}')
	if w.list {
		closing = ']'
	}
	if i >= len(w.b) {
		return w.fail()
	}
	if w.b[i] == closing {
		w.end = i + 1
		return false
	}
	it.from = w.i
	if w.n > 0 {
		if w.b[i] != ',' {
			return w.fail()
		}
		it.from = i + 1
		i = skipSpace(w.b, i+1)
	}
	if !w.list {
		if i >= len(w.b) || w.b[i] != '"' {
			return w.fail()
		}
		it.key = i
		if it.kend = skipString(w.b, i); it.kend < 0 {
			return w.fail()
		}
		it.hasEscapes = bytes.IndexByte(w.b[it.key:it.kend], '\\') >= 0
		i = skipSpace(w.b, it.kend)
		if i >= len(w.b) || w.b[i] != ':' {
			return w.fail()
		}
		i = skipSpace(w.b, i+1)
	}
	it.val = i
	if it.vend = skipValue(w.b, i); it.vend < 0 {
		return w.fail()
	}
	it.index = w.n
	w.n++
	w.i = it.vend
	return true
}

func (w *walk) fail() bool {
	w.err = errBroken
	return false
}

// keyIs compares the key of it with key.
func keyIs(b []byte, it *item, key string) bool {
	if !it.hasEscapes {
		return string(b[it.key+1:it.kend-1]) == key
	}
	return keyOf(b, it) == key
}

// keyOf decodes the key of it.
func keyOf(b []byte, it *item) string {
	if !it.hasEscapes {
		return string(b[it.key+1 : it.kend-1])
	}
	s, err := event.Unquote(b[it.key:it.kend])
	if err != nil {
		return ""
	}
	return s
}

// locate finds the value that segs lead to in the value b: its place, or found
// false. Of several members with one key the last one counts. A path into
// a scalar finds nothing.
func locate(b []byte, segs []seg) (from, to int, found bool, err error) {
	i := skipSpace(b, 0)
	for _, s := range segs {
		if i >= len(b) {
			return 0, 0, false, errBroken
		}
		if c := b[i]; s.list && c != '[' || !s.list && c != '{' {
			return 0, 0, false, nil
		}
		w, at := walkAt(b, i), -1
		var it item
		for w.next(&it) {
			if s.list {
				if it.index == s.index {
					at = it.val
					break
				}
			} else if keyIs(b, &it, s.key) {
				at = it.val
			}
		}
		if w.err != nil {
			return 0, 0, false, w.err
		}
		if at < 0 {
			return 0, 0, false, nil
		}
		i = at
	}
	end := skipValue(b, i)
	if end < 0 {
		return 0, 0, false, errBroken
	}
	return i, end, true, nil
}

// kindOf names the kind of value that begins with c.
func kindOf(c byte) string {
	switch c {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
