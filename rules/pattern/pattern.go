// Package pattern is the event pattern language: a JSON object whose leaves are
// lists of alternatives. PATTERNS.md beside the code specifies it.
//
// A Pattern judges one event, a Document pattern one JSON document, and an Index
// many patterns in one walk of the event. The package does no I/O and keeps no
// state between events but the caller's Scratch.
package pattern

import "millrace/bus/event"

// Pattern is one compiled pattern over events. It never changes and may be used
// by many goroutines at once.
type Pattern struct {
	tree     *jval
	branches []branch
	index    *Index
}

// Compile reads a pattern over CloudEvents attributes and data. The error is an
// *Error that names the place in the pattern and the fix.
func Compile(raw []byte) (*Pattern, error) {
	tree, err := parse(raw)
	if err != nil {
		return nil, err
	}
	bs, err := compile(tree, true)
	if err != nil {
		return nil, err
	}
	return &Pattern{tree: tree, branches: bs, index: newIndex([][]branch{bs}, true)}, nil
}

// Match reports whether e matches. Data is looked at only where the pattern
// needs it; malformed JSON matches no condition on data. A nil Scratch works and
// allocates; a reused one makes Match free of allocations.
func (p *Pattern) Match(e *event.Event, s *Scratch) bool {
	return len(p.index.Match(e, s)) == 1
}

// Document is one compiled pattern over plain JSON documents, such as events in
// the shape of other buses: its keys at the top are free. It never changes and
// may be used by many goroutines at once.
type Document struct{ index *Index }

// CompileJSON reads a pattern over plain JSON documents. The error is an *Error.
func CompileJSON(raw []byte) (*Document, error) {
	tree, err := parse(raw)
	if err != nil {
		return nil, err
	}
	bs, err := compile(tree, false)
	if err != nil {
		return nil, err
	}
	return &Document{newIndex([][]branch{bs}, false)}, nil
}

// MatchJSON reports whether a document matches. What is not a valid JSON object
// matches nothing. A nil Scratch works and allocates.
func (d *Document) MatchJSON(doc []byte, s *Scratch) bool {
	if s == nil {
		s = &Scratch{}
	}
	s.begin(d.index.paths)
	if i := skipSpace(doc, 0); i == len(doc) || doc[i] != '{' || !s.walk(doc, d.index.root) {
		return false
	}
	for i := range d.index.rules[0] {
		if c := &d.index.rules[0][i]; len(c.conds) == 0 || s.holds(c) {
			return true
		}
	}
	return false
}
