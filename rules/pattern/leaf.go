package pattern

import (
	"slices"
	"strings"
)

// value is one scalar of an event. s is the decoded text of a string and the
// literal text of anything else.
type value struct {
	kind kind
	s    string
}

// leaf is the list of alternatives of one path, without exists:false, which is
// not a property of any value.
type leaf struct {
	strs  []string
	set   map[string]struct{} // instead of strs where there are many
	nums  []decimal
	kinds uint8 // bit per kind: true, false, null; or all, for exists:true
	tests []test
}

type op uint8

const (
	opPrefix op = iota
	opSuffix
	opNotStrings
	opNotNumbers
	opNotPrefix
	opNotSuffix
	opNumeric
)

type test struct {
	op   op
	strs []string  // operands of all but numbers
	nums []decimal // opNotNumbers
	low  bound     // opNumeric
	high bound
	not  bool // opNumeric: != instead
}

// bound is one side of a numeric range; set is false where it is open.
type bound struct {
	set, inclusive bool
	n              decimal
}

const anyKind = 1<<kindString | 1<<kindNumber | 1<<kindTrue | 1<<kindFalse | 1<<kindNull

// linear is up to how many strings are compared one by one.
const linear = 8

// seal makes the leaf ready for matching.
func (l *leaf) seal() {
	if len(l.strs) <= linear {
		return
	}
	l.set = make(map[string]struct{}, len(l.strs))
	for _, s := range l.strs {
		l.set[s] = struct{}{}
	}
}

// match reports whether one scalar satisfies one of the alternatives.
func (l *leaf) match(v value) bool {
	if l.kinds&(1<<v.kind) != 0 {
		return true
	}
	if v.kind == kindString && l.has(v.s) || v.kind == kindNumber && len(l.nums) > 0 && hasNumber(l.nums, v.s) {
		return true
	}
	for i := range l.tests {
		if l.tests[i].match(v) {
			return true
		}
	}
	return false
}

func (l *leaf) has(s string) bool {
	if l.set == nil {
		return slices.Contains(l.strs, s)
	}
	_, ok := l.set[s]
	return ok
}

func hasNumber(list []decimal, text string) bool {
	n := parseDecimal(text)
	for i := range list {
		if n.compare(list[i]) == 0 {
			return true
		}
	}
	return false
}

func (t *test) match(v value) bool {
	text := v.kind == kindString
	switch t.op {
	case opPrefix:
		return text && anyOf(t.strs, v.s, strings.HasPrefix)
	case opSuffix:
		return text && anyOf(t.strs, v.s, strings.HasSuffix)
	case opNotPrefix:
		return !text || !anyOf(t.strs, v.s, strings.HasPrefix)
	case opNotSuffix:
		return !text || !anyOf(t.strs, v.s, strings.HasSuffix)
	case opNotStrings:
		return !text || !slices.Contains(t.strs, v.s)
	case opNotNumbers:
		return v.kind != kindNumber || !hasNumber(t.nums, v.s)
	case opNumeric:
	}
	return v.kind == kindNumber && t.inRange(parseDecimal(v.s)) != t.not
}

func (t *test) inRange(n decimal) bool {
	if t.low.set {
		if c := n.compare(t.low.n); c < 0 || c == 0 && !t.low.inclusive {
			return false
		}
	}
	if t.high.set {
		if c := n.compare(t.high.n); c > 0 || c == 0 && !t.high.inclusive {
			return false
		}
	}
	return true
}

func anyOf(list []string, s string, f func(s, x string) bool) bool {
	for _, x := range list {
		if f(s, x) {
			return true
		}
	}
	return false
}
