package pattern

import (
	"slices"
	"strings"
	"time"

	"millrace/bus/event"
)

// Index is many patterns judged together: the event is walked once, and only if
// a pattern that its attributes do not rule out asks for data. It never changes
// and may be used by many goroutines at once, each with its own Scratch.
type Index struct {
	rules []rule
	root  *node // of data, or of the whole document
	paths int
}

// rule is one pattern, its paths numbered.
type rule []conj

// conj is a branch. Conditions on attributes come first: they cost least.
type conj struct {
	attrs []attrCond
	conds []pathCond
	// joints are the paths with several conditions below. Where an array stands on
	// one, all of them must hold in one element, which tree decides.
	joints []int32
	tree   *tree
}

type attrCond struct {
	name string
	leaf *leaf // nil: must be absent
}

type pathCond struct {
	path int32
	leaf *leaf // nil: must be absent
}

// tree is the conditions of one conj in the shape of the document.
type tree struct {
	path   int32
	wanted bool  // a condition here or below needs a value
	here   bool  // there is a condition on this very path
	leaf   *leaf // of it; nil: must be absent
	kids   []*tree
}

// NewIndex merges patterns; Match answers with their positions in the list.
func NewIndex(patterns []*Pattern) *Index {
	all := make([][]branch, len(patterns))
	for i, p := range patterns {
		all[i] = p.branches
	}
	return newIndex(all, true)
}

func newIndex(patterns [][]branch, forEvent bool) *Index {
	x := &Index{root: &node{}, paths: 1, rules: make([]rule, len(patterns))}
	for i, bs := range patterns {
		for _, b := range bs {
			x.rules[i] = append(x.rules[i], x.conj(b, forEvent))
		}
	}
	x.root.seal()
	return x
}

func (x *Index) conj(b branch, forEvent bool) conj {
	var c conj
	c.tree = &tree{path: x.root.path}
	below := map[int32]int{}
	for _, cd := range b {
		keys := cd.keys
		if forEvent {
			if keys[0] != "data" {
				c.attrs = append(c.attrs, attrCond{keys[0], cd.leaf})
				continue
			}
			keys = keys[1:]
		}
		n, t := x.root, c.tree
		t.wanted = t.wanted || cd.leaf != nil
		below[n.path]++
		for _, k := range keys {
			n = x.child(n, k)
			t = t.child(n.path)
			t.wanted = t.wanted || cd.leaf != nil
			below[n.path]++
		}
		n.leaf = true
		t.here, t.leaf = true, cd.leaf
		c.conds = append(c.conds, pathCond{n.path, cd.leaf})
	}
	for p, count := range below {
		if count > 1 {
			c.joints = append(c.joints, p)
		}
	}
	slices.Sort(c.joints)
	return c
}

func (x *Index) child(n *node, key string) *node {
	for i := range n.kids {
		if n.kids[i].key == key {
			return n.kids[i].node
		}
	}
	kid := &node{path: int32(x.paths)}
	x.paths++
	n.kids = append(n.kids, edge{key, kid})
	return kid
}

// seal turns long lists of keys into maps.
func (n *node) seal() {
	if len(n.kids) > linear {
		n.many = make(map[string]*node, len(n.kids))
		for _, k := range n.kids {
			n.many[k.key] = k.node
		}
	}
	for _, k := range n.kids {
		k.seal()
	}
}

func (t *tree) child(path int32) *tree {
	for _, k := range t.kids {
		if k.path == path {
			return k
		}
	}
	k := &tree{path: path}
	t.kids = append(t.kids, k)
	return k
}

// states of the walk, which is put off until a conj needs it.
type walked uint8

const (
	notYet walked = iota
	valid         // or there is no JSON to walk, which is as an empty document
	invalid
)

// Match returns the positions of the patterns that match e, rising. The list is
// s's own and holds until its next use. A nil Scratch works and allocates.
func (x *Index) Match(e *event.Event, s *Scratch) []int32 {
	if s == nil {
		s = &Scratch{}
	}
	s.found = s.found[:0]
	s.time = s.time[:0]
	w := notYet
	for i := range x.rules {
		if x.matches(x.rules[i], e, s, &w) {
			s.found = append(s.found, int32(i))
		}
	}
	return s.found
}

func (x *Index) matches(r rule, e *event.Event, s *Scratch, w *walked) bool {
	for i := range r {
		c := &r[i]
		if !s.attributes(c.attrs, e) {
			continue
		}
		if len(c.conds) == 0 {
			return true
		}
		if *w == notYet {
			*w = x.walkData(e, s)
		}
		if *w == valid && s.holds(c) {
			return true
		}
	}
	return false
}

func (x *Index) walkData(e *event.Event, s *Scratch) walked {
	s.begin(x.paths)
	if len(e.Data) == 0 || !s.json(e.ContentType) {
		return valid
	}
	if !s.walk(e.Data, x.root) {
		return invalid
	}
	return valid
}

// json is event.IsJSON with a memory of one: parsing a media type allocates.
func (s *Scratch) json(contentType string) bool {
	if contentType == "" {
		return true
	}
	if contentType != s.media {
		s.media, s.mediaYes = strings.Clone(contentType), event.IsJSON(contentType)
	}
	return s.mediaYes
}

func (s *Scratch) attributes(cs []attrCond, e *event.Event) bool {
	for i := range cs {
		v, ok := s.attribute(e, cs[i].name)
		if cs[i].leaf == nil {
			if ok {
				return false
			}
		} else if !ok || !cs[i].leaf.match(v) {
			return false
		}
	}
	return true
}

// attribute returns an attribute with its CloudEvents type. It is event.Get, but
// keeps the kind and does not allocate.
func (s *Scratch) attribute(e *event.Event, name string) (value, bool) {
	var v string
	switch name {
	case "type":
		v = e.Type
	case "source":
		v = e.Source
	case "id":
		v = e.ID
	case "subject":
		v = e.Subject
	case "datacontenttype":
		v = e.ContentType
	case "dataschema":
		v = e.Schema
	case "partitionkey":
		v = e.Key
	case "specversion":
		v = "1.0"
	case "time":
		if e.Time.IsZero() {
			return value{}, false
		}
		if len(s.time) == 0 {
			s.time = e.Time.UTC().AppendFormat(s.time, time.RFC3339Nano)
		}
		v = asString(s.time)
	default:
		for i := range e.Ext {
			if e.Ext[i].Name == name {
				return extension(&e.Ext[i]), true
			}
		}
	}
	return value{kind: kindString, s: v}, v != ""
}

func extension(a *event.Attr) value {
	switch {
	case a.Kind == event.Int && a.Value != "":
		return value{kind: kindNumber, s: a.Value}
	case a.Kind == event.Bool && a.Value == "true":
		return value{kind: kindTrue, s: a.Value}
	case a.Kind == event.Bool:
		return value{kind: kindFalse, s: a.Value}
	}
	return value{kind: kindString, s: a.Value}
}
