package pattern

import (
	"fmt"
	"strings"
)

// Error says what is wrong with a pattern. Path leads from the pattern's root to
// the place, such as "data.amount[0]"; it is empty for the root itself.
type Error struct {
	Path string
	Msg  string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return "pattern: " + e.Msg
	}
	return e.Path + ": " + e.Msg
}

func errorf(path, format string, args ...any) *Error {
	return &Error{Path: path, Msg: fmt.Sprintf(format, args...)}
}

// join appends a key to a path as people write it: a.b, or a["b.c"] where a
// plain dot would mislead.
func join(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\" \t\r\n") {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func joinAll(keys []string) string {
	path := ""
	for _, k := range keys {
		path = join(path, k)
	}
	return path
}

// Nearest returns the word of list that word was most likely meant to be, or ""
// if none is close; case is ignored.
func Nearest(word string, list []string) string {
	best, at := "", max(2, len(word)/3)+1
	for _, w := range list {
		d := distance(strings.ToLower(word), strings.ToLower(w))
		if d < at && d < max(len(word), len(w)) {
			best, at = w, d
		}
	}
	return best
}

// distance is Levenshtein's, over bytes; a swap of neighbours counts as one.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
