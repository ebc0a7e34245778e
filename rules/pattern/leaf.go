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
	switch v.kind {
	case kindString:
		if l.set != nil {
			if _, ok := l.set[v.s]; ok {
				return true
			}
		} else if slices.Contains(l.strs, v.s) {
			return true
		}
	case kindNumber:
		if len(l.nums) > 0 {
			n := parseDecimal(v.s)
			for i := range l.nums {
				if n.compare(l.nums[i]) == 0 {
					return true
				}
			}
		}
	}
	for i := range l.tests {
		if l.tests[i].match(v) {
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
		return !(text && anyOf(t.strs, v.s, strings.HasPrefix))
	case opNotSuffix:
		return !(text && anyOf(t.strs, v.s, strings.HasSuffix))
	case opNotStrings:
		return !(text && slices.Contains(t.strs, v.s))
	case opNotNumbers:
		if v.kind != kindNumber {
			return true
		}
		n := parseDecimal(v.s)
		return !slices.ContainsFunc(t.nums, func(o decimal) bool { return n.compare(o) == 0 })
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
