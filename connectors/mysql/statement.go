package mysql

import (
	"bytes"
	"iter"
	"strings"
)

// firstWord is a statement's first word in capitals, comments left out.
func firstWord(query []byte) string {
	q := bytes.TrimSpace(query)
	for bytes.HasPrefix(q, []byte("/*")) && !bytes.HasPrefix(q, []byte("/*!")) {
		_, rest, ok := bytes.Cut(q, []byte("*/"))
		if !ok {
			return ""
		}
		q = bytes.TrimSpace(rest)
	}
	end := bytes.IndexFunc(q, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if end >= 0 {
		q = q[:end]
	}
	return strings.ToUpper(string(q))
}

// mentions reports whether a statement names a table that is captured; db is the
// database it ran in.
func mentions(f *filter, db, query string) bool {
	for at, name := range namesIn(db, query) {
		if f.captures(at, name) {
			return true
		}
	}
	return false
}

// namesIn yields every word of a statement that may be a table's name, with its
// database, or db where it names none.
func namesIn(db, query string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		at := db // the database that the next name belongs to
		for len(query) > 0 {
			switch c := query[0]; {
			case c == '\'' || c == '"':
				query = afterQuoted(query)
			case c == '`' || nameByte(c):
				name, rest := cutName(query)
				query = rest
				if strings.HasPrefix(query, ".") {
					at = name
					query = query[1:]
					continue
				}
				if !yield(at, name) {
					return
				}
				at = db
			default:
				query = query[1:]
			}
		}
	}
}

func nameByte(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// afterQuoted is what follows a quoted text.
func afterQuoted(s string) string {
	quote := s[0]
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			return s[i+1:]
		}
	}
	return ""
}

// cutName takes a name, in backticks or not, off the front.
func cutName(s string) (name, rest string) {
	if s[0] == '`' {
		name, rest, _ = strings.Cut(s[1:], "`")
		return name, rest
	}
	i := 0
	for i < len(s) && nameByte(s[i]) {
		i++
	}
	return s[:i], s[i:]
}
