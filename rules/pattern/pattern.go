// Package pattern is the event pattern language: a JSON object whose leaves are
// lists of alternatives. PATTERNS.md beside the code specifies it.
//
// A Pattern judges one event; an Index judges many patterns in one walk of the
// event. The package does no I/O and keeps no state between events but the
// caller's Scratch.
package pattern

import "millrace/bus/event"

// Pattern is one compiled pattern over events. It never changes and may be used
// by many goroutines at once.
type Pattern struct {
	index *Index
}

// Compile reads a pattern over CloudEvents attributes and data. The error is an
// *Error that names the place in the pattern and the fix.
func Compile(raw []byte) (*Pattern, error) { return nil, &Error{Msg: "not yet"} }

// Match reports whether e matches. Data is looked at only where the pattern
// needs it; malformed JSON matches no condition on data. A nil Scratch works and
// allocates; a reused one makes Match free of allocations.
func (p *Pattern) Match(e *event.Event, s *Scratch) bool { return false }

// Index is many patterns judged together.
type Index struct{}

// Scratch is the memory one goroutine reuses from match to match. The zero value
// is ready; it may serve any number of patterns and indexes in turn.
type Scratch struct{}

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
