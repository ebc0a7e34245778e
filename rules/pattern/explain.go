package pattern

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"millrace/bus/event"
)

// Condition is one condition of a pattern, judged on one event.
type Condition struct {
	Path   string            `json:"path"`            // in the pattern, such as "data.amount"
	Op     string            `json:"op"`              // such as "exact", "prefix", "any of", "$or", "same element"
	Wanted json.RawMessage   `json:"wanted"`          // the list of alternatives as written
	Found  []json.RawMessage `json:"found,omitempty"` // the values there, at most 10, long text cut
	OK     bool              `json:"ok"`
	Note   string            `json:"note,omitempty"` // the nearest miss, where there is one
}

// Bounds of what Explain shows. Invariant 10.
const (
	maxFound     = 10
	maxShownText = 200
)

// Explain judges every condition of the pattern by itself, in the order they are
// written. It is for people, and far slower than Match.
func (p *Pattern) Explain(e *event.Event) []Condition {
	x := explainer{e: e}
	x.object(p.tree, nil, "")
	if !p.Match(e, nil) && !slices.ContainsFunc(x.out, func(c Condition) bool { return !c.OK && !strings.Contains(c.Path, "$or[") }) {
		x.out = append(x.out, x.apart(p))
	}
	return x.out
}

type explainer struct {
	e        *event.Event
	out      []Condition
	replaced [][]string // paths that a branch of $or names again
}

// replace notes the paths that a branch of $or names.
func (x *explainer) replace(v *jval, keys []string) {
	for i, key := range v.keys {
		in := append(slices.Clip(keys), key)
		switch {
		case key == "$or":
			for _, alt := range v.vals[i].vals {
				x.replace(alt, keys)
			}
		case v.vals[i].kind == kindObject:
			x.replace(v.vals[i], in)
		default:
			x.replaced = append(x.replaced, in)
		}
	}
}

func (x *explainer) object(v *jval, keys []string, path string) {
	var or *jval
	if i := slices.Index(v.keys, "$or"); i >= 0 {
		or = v.vals[i]
		for _, alt := range or.vals {
			x.replace(alt, keys)
		}
	}
	for i, key := range v.keys {
		if key == "$or" {
			continue
		}
		at, in := join(path, key), append(slices.Clip(keys), key)
		if v.vals[i].kind == kindObject {
			x.object(v.vals[i], in, at)
		} else {
			x.out = append(x.out, x.leaf(v.vals[i], in, at))
		}
	}
	if or == nil {
		return
	}
	outer := x.replaced
	x.replaced = nil // the branches are what replaces
	at := join(path, "$or")
	c := Condition{Path: at, Op: "$or", Wanted: raw(or)}
	x.out = append(x.out, c)
	place := len(x.out) - 1
	for i, alt := range or.vals {
		x.out[place].OK = x.out[place].OK || x.holds(alt, keys)
		x.object(alt, keys, indexed(at, i))
	}
	x.replaced = outer
	if !x.out[place].OK {
		x.out[place].Note = "no branch matches"
	}
}

// holds judges a branch as a pattern of its own.
func (x *explainer) holds(v *jval, keys []string) bool {
	c := compiler{forEvent: true}
	bs, err := c.object(v, keys, "", "")
	if err != nil {
		return false // the whole was compiled, so is the part
	}
	return len(newIndex([][]branch{bs}, true).Match(x.e, nil)) == 1
}

func (x *explainer) leaf(v *jval, keys []string, path string) Condition {
	c := Condition{Path: path, Op: "any of", Wanted: raw(v)}
	if len(v.vals) == 1 {
		c.Op = "exact"
		if v.vals[0].kind == kindObject {
			c.Op = v.vals[0].keys[0]
		}
	}
	l, absent, err := alternatives(v, path)
	if err != nil {
		c.Note = err.Error() // cannot be: the pattern was compiled
		return c
	}
	values, note := x.values(keys)
	for _, val := range values {
		c.OK = c.OK || l != nil && l.match(val)
		if len(c.Found) < maxFound {
			c.Found = append(c.Found, val.raw())
		}
	}
	broken := note == notValid
	c.OK = c.OK || absent && len(values) == 0 && !broken
	if !c.OK {
		c.Note = note
		if len(values) > 0 {
			c.Note = nearMiss(v, values, absent)
		}
		if slices.ContainsFunc(x.replaced, func(r []string) bool { return slices.Equal(r, keys) }) {
			c.Note = "branches of $or that name this field replace this condition"
		}
	}
	return c
}

// values are the scalars at keys; the note says why there are none.
func (x *explainer) values(keys []string) ([]value, string) {
	var s Scratch
	if keys[0] != "data" {
		if v, ok := s.attribute(x.e, keys[0]); ok {
			return []value{v}, ""
		}
		return nil, x.noAttribute(keys[0])
	}
	idx := newIndex([][]branch{{{{keys: keys, leaf: &leaf{}}}}}, true)
	switch {
	case len(x.e.Data) == 0:
		return nil, "the event has no data"
	case !x.e.JSON():
		return nil, "data is not JSON but " + x.e.ContentType
	case idx.walkData(x.e, &s) == invalid:
		return nil, notValid
	}
	var found []value
	at := idx.rules[0][0].conds[0].path
	for i := range s.tape {
		if e := &s.tape[i]; e.path == at && e.kind != kindObject && e.kind != kindArray {
			found = append(found, s.scalarAt(e))
		}
	}
	if len(found) > 0 {
		return found, ""
	}
	return nil, x.missing(keys)
}

const notValid = "data is not valid JSON though its content type says so"

func (x *explainer) noAttribute(name string) string {
	have := []string{"data"}
	for _, n := range attributes() {
		if _, ok := x.e.Get(n); ok {
			have = append(have, n)
		}
	}
	for i := range x.e.Ext {
		have = append(have, x.e.Ext[i].Name)
	}
	note := "the event has no attribute " + name
	if near := Nearest(name, have); near != "" && !slices.Contains(attributes(), name) {
		return note + ", but " + near
	}
	var data map[string]any
	if json.Unmarshal(x.e.Data, &data) == nil && data[name] != nil {
		return note + ", but a field data." + name
	}
	return note
}

// missing says how far the path leads and what is there instead.
func (x *explainer) missing(keys []string) string {
	d := json.NewDecoder(bytes.NewReader(x.e.Data))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return notValid
	}
	here := []any{doc}
	for n, key := range keys[1:] {
		at := joinAll(keys[:n+1])
		var next []any
		var names []string
		for _, v := range here {
			for _, o := range objects(v) {
				for name, val := range o {
					if name == key {
						next = append(next, val)
					} else {
						names = append(names, name)
					}
				}
			}
		}
		if len(next) > 0 {
			here = next
			continue
		}
		slices.Sort(names)
		note := fmt.Sprintf("%s has no field %s", at, key)
		if near := Nearest(key, names); near != "" {
			return fmt.Sprintf("%s, but %s", note, join(at, near))
		}
		if other := find(doc, keys[len(keys)-1], "data", 0); other != "" {
			return fmt.Sprintf("%s; there is %s", note, other)
		}
		return note
	}
	if slices.ContainsFunc(here, func(v any) bool { return len(objects(v)) > 0 }) {
		return joinAll(keys) + " is an object: conditions apply to its fields"
	}
	return joinAll(keys) + " is empty"
}

// objects sees through arrays.
func objects(v any) []map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []any:
		var all []map[string]any
		for _, e := range v {
			all = append(all, objects(e)...)
		}
		return all
	}
	return nil
}

// find looks for a field of that name anywhere, at most 20 deep.
func find(v any, key, path string, depth int) string {
	if depth > 20 {
		return ""
	}
	for _, o := range objects(v) {
		if _, ok := o[key]; ok {
			return join(path, key)
		}
		names := make([]string, 0, len(o))
		for name := range o {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			if at := find(o[name], key, join(path, name), depth+1); at != "" {
				return at
			}
		}
	}
	return ""
}

// nearMiss compares what was found with what was wanted.
func nearMiss(v *jval, values []value, absent bool) string {
	if absent && len(v.vals) == 1 {
		return "the field is there"
	}
	for _, alt := range v.vals {
		op, want := "", alt
		if alt.kind == kindObject {
			op, want = alt.keys[0], alt.vals[0]
		}
		for _, val := range values {
			if note := compare(op, want, val); note != "" {
				return note
			}
		}
	}
	return ""
}

func compare(op string, want *jval, got value) string {
	switch {
	case op == "" && want.kind != got.kind && want.text() == got.s:
		return fmt.Sprintf("wanted the %s, found the %s", want.describe(), got.describe())
	case op == "numeric" && got.kind == kindString:
		if isNumber(got.s) {
			return "wanted a number, found the " + got.describe()
		}
	case want.kind != kindString || got.kind != kindString:
	case op == "" && strings.EqualFold(want.s, got.s),
		op == "prefix" && len(got.s) >= len(want.s) && strings.EqualFold(got.s[:len(want.s)], want.s),
		op == "suffix" && len(got.s) >= len(want.s) && strings.EqualFold(got.s[len(got.s)-len(want.s):], want.s):
		return "differs only in case"
	case op == "" && strings.TrimSpace(want.s) == strings.TrimSpace(got.s):
		return "differs only in spaces around it"
	case op == "" && strings.HasPrefix(got.s, want.s) && want.s != "":
		return fmt.Sprintf(`only begins with it: {"prefix": %q} would match`, want.s)
	case op == "" && strings.HasSuffix(got.s, want.s) && want.s != "":
		return fmt.Sprintf(`only ends with it: {"suffix": %q} would match`, want.s)
	}
	return ""
}

func isNumber(s string) bool {
	b := []byte(s)
	return len(b) > 0 && scanNumber(b, 0) == len(b)
}

// apart explains conditions that hold each by itself but not together.
func (x *explainer) apart(p *Pattern) Condition {
	c := Condition{
		Op: "same element", Path: "data", Wanted: json.RawMessage("null"),
		Note: "each condition holds somewhere, but they do not hold together",
	}
	var s Scratch
	if p.index.walkData(x.e, &s) == invalid {
		c.Note = notValid
		return c
	}
	for _, cj := range p.index.rules[0] {
		for _, at := range cj.joints {
			if s.slots[at].array == s.epoch {
				c.Path = joinAll(append([]string{"data"}, keysTo(p.index.root, at)...))
				c.Note = "each condition holds somewhere in this list, but not all in the same element"
			}
		}
	}
	return c
}

// keysTo is the way from n to a path.
func keysTo(n *node, path int32) []string {
	for _, k := range n.kids {
		if k.path == path {
			return []string{k.key}
		}
		if keys := keysTo(k.node, path); keys != nil {
			return append([]string{k.key}, keys...)
		}
	}
	return nil
}
