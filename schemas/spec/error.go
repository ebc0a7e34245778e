package spec

import "strings"

// Problem is one thing wrong with a config. Path is the key, with the way into
// nested values, such as "transforms[0].set".
type Problem struct {
	Path string
	Msg  string // what is wrong and how to mend it; never shows a secret
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Msg
	}
	return p.Path + ": " + p.Msg
}

// Error is all that is wrong with a config, in the order of the spec's fields.
type Error struct{ Problems []Problem }

// Error puts all problems on one line.
func (e *Error) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = p.String()
	}
	return strings.Join(parts, "; ")
}
