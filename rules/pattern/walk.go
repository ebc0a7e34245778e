package pattern

import "unsafe"

// node is a JSON path that some pattern asks for. An array has the path of its
// elements: patterns see through arrays.
type node struct {
	path int32
	leaf bool // scalars here are tested
	kids []edge
	many map[string]*node // instead of kids where there are many
}

type edge struct {
	key string
	*node
}

// kid returns the node under key, or nil.
func (n *node) kid(key []byte) *node {
	if n.many != nil {
		return n.many[string(key)]
	}
	for i := range n.kids {
		if n.kids[i].key == string(key) {
			return n.kids[i].node
		}
	}
	return nil
}

// entry is one value of the event that lies on a path asked for. Entries stand
// in the document's order; an object or array is followed by what is in it, up
// to end. A scalar's text is doc[from:to], or that part of the scratch's text
// where it had to be unescaped.
type entry struct {
	path     int32
	end      int32 // index of the first entry after this value
	same     int32 // the scalar before it on the same path, or -1
	kind     kind
	decoded  bool
	from, to uint32
}

// slot is what the last walk found on one path; it holds if its epoch is the
// scratch's.
type slot struct {
	scalars uint32 // epoch
	last    int32  // the last scalar; the others follow by entry.same
	array   uint32 // epoch: an array stood here
}

// Scratch is the memory one goroutine reuses from match to match. The zero value
// is ready; it may serve any number of patterns and indexes in turn.
type Scratch struct {
	epoch uint32
	doc   []byte
	tape  []entry
	slots []slot
	text  []byte // unescaped strings
	found []int32

	time     []byte // the time attribute as text
	media    string // the last content type seen, and whether it is JSON
	mediaYes bool
}

// begin forgets the walk before. paths is how many slots the next one needs.
func (s *Scratch) begin(paths int) {
	s.epoch++
	if s.epoch == 0 {
		clear(s.slots)
		s.epoch = 1
	}
	if len(s.slots) < paths {
		s.slots = append(s.slots, make([]slot, paths-len(s.slots))...)
	}
	s.tape, s.text, s.doc = s.tape[:0], s.text[:0], nil
}

// walk reads a document once and keeps the values on the paths below root. It
// reports whether the document is valid JSON.
func (s *Scratch) walk(doc []byte, root *node) bool {
	if uint64(len(doc)) >= 1<<32 {
		return false
	}
	s.doc = doc
	i := s.value(doc, skipSpace(doc, 0), root, 0)
	return i >= 0 && skipSpace(doc, i) == len(doc)
}

func (s *Scratch) value(b []byte, i int, n *node, depth int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		end, escaped := scanString(b, i+1)
		if end < 0 {
			return -1
		}
		e := entry{kind: kindString, from: uint32(i + 1), to: uint32(end)}
		if escaped {
			e.decoded, e.from = true, uint32(len(s.text))
			s.text = unescape(s.text, b[i+1:end])
			e.to = uint32(len(s.text))
		}
		s.scalar(n, e)
		return end + 1
	case '{':
		if len(n.kids) == 0 {
			return skipMembers(b, i, depth+1)
		}
		return s.object(b, i, n, depth+1)
	case '[':
		return s.array(b, i, n, depth+1)
	}
	end, k := scanScalar(b, i)
	if end >= 0 {
		s.scalar(n, entry{kind: k, from: uint32(i), to: uint32(end)})
	}
	return end
}

func (s *Scratch) scalar(n *node, e entry) {
	at := int32(len(s.tape))
	e.path, e.end, e.same = n.path, at+1, -1
	if n.leaf {
		slot := &s.slots[n.path]
		if slot.scalars == s.epoch {
			e.same = slot.last
		}
		slot.scalars, slot.last = s.epoch, at
	}
	s.tape = append(s.tape, e)
}

func (s *Scratch) object(b []byte, i int, n *node, depth int) int {
	if depth > maxDepth {
		return -1
	}
	at := len(s.tape)
	s.tape = append(s.tape, entry{path: n.path, kind: kindObject})
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		s.tape[at].end = int32(len(s.tape))
		return i + 1
	}
	for more := true; more; {
		end, escaped, v := scanKey(b, i)
		if v < 0 {
			return -1
		}
		key := b[i+1 : end]
		if escaped {
			from := len(s.text)
			s.text = unescape(s.text, key)
			key = s.text[from:]
		}
		if kid := n.kid(key); kid != nil {
			i = s.value(b, v, kid, depth)
		} else {
			i = skipValue(b, v, depth)
		}
		if i < 0 {
			return -1
		}
		i, more = next(b, i, '}')
	}
	s.tape[at].end = int32(len(s.tape))
	return i
}

func (s *Scratch) array(b []byte, i int, n *node, depth int) int {
	if depth > maxDepth {
		return -1
	}
	s.slots[n.path].array = s.epoch
	at := len(s.tape)
	s.tape = append(s.tape, entry{path: n.path, kind: kindArray})
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		s.tape[at].end = int32(len(s.tape))
		return i + 1
	}
	for more := true; more; {
		if i = s.value(b, i, n, depth); i < 0 {
			return -1
		}
		i, more = next(b, i, ']')
	}
	s.tape[at].end = int32(len(s.tape))
	return i
}

// scalarAt returns the value of a scalar entry. It shares the memory of the
// document and lives as long as the walk.
func (s *Scratch) scalarAt(e *entry) value {
	text := s.doc
	if e.decoded {
		text = s.text
	}
	return value{kind: e.kind, s: asString(text[e.from:e.to])}
}

// asString views bytes that do not change while they are looked at as a string,
// without a copy.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
