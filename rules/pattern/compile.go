package pattern

import (
	"slices"
	"strings"
)

// A pattern is compiled to branches: each is a conjunction of conditions on
// different paths, and the pattern matches if one branch does. $or multiplies
// branches, and so does exists:false beside other alternatives.

const (
	// maxBranches and maxConds bound what $or may multiply to. Invariant 10.
	maxBranches = 1024
	maxConds    = 1 << 16
)

// cond is one path and what is wanted there: leaf, or nothing at all.
type cond struct {
	keys   []string
	leaf   *leaf // nil: the path must hold no scalar
	absent bool
}

type branch []cond

// attributes are the CloudEvents attributes that are not extensions.
func attributes() []string {
	return []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "partitionkey"}
}

// compile turns the root object of a pattern into branches. For an event the
// keys at the top are attributes and data, for a document they are free.
func compile(v *jval, forEvent bool) ([]branch, error) {
	if v.kind != kindObject {
		return nil, errorf("", `is not an object, such as {"type": ["order.created"]}`)
	}
	if len(v.keys) == 0 {
		return []branch{nil}, nil
	}
	c := compiler{forEvent: forEvent}
	bs, err := c.object(v, nil, "", "")
	if err != nil {
		return nil, err
	}
	return bs, nil
}

type compiler struct{ forEvent bool }

// object compiles the fields of one object. path is where it stands in the
// pattern, for errors; keys is where it stands in the event.
func (c *compiler) object(v *jval, keys []string, path, in string) ([]branch, error) {
	acc := []branch{nil}
	var or *jval
	for i, key := range v.keys {
		if key == "$or" {
			or = v.vals[i]
			continue
		}
		at := join(path, key)
		if in == "$or" && slices.Contains(reserved(), key) {
			return nil, errorf(at, "is the name of an operator, not of a field: a branch of $or holds fields, such as {\"a\": [{%q: …}]}", key)
		}
		bs, err := c.field(v.vals[i], append(slices.Clip(keys), key), at)
		if err != nil {
			return nil, err
		}
		if len(acc) == 1 && len(bs) == 1 { // the common case; fields side by side never name one path
			acc[0] = append(acc[0], bs[0]...)
		} else if acc, err = product(acc, bs, path); err != nil {
			return nil, err
		}
	}
	if or == nil {
		return acc, nil
	}
	bs, err := c.or(or, keys, join(path, "$or"))
	if err != nil {
		return nil, err
	}
	return product(acc, bs, path)
}

func (c *compiler) or(v *jval, keys []string, path string) ([]branch, error) {
	if v.kind != kindArray || len(v.vals) < 2 {
		return nil, errorf(path, `needs a list of at least two objects, such as [{"a": ["x"]}, {"b": ["y"]}]`)
	}
	var all []branch
	for i, alt := range v.vals {
		at := indexed(path, i)
		if alt.kind != kindObject {
			return nil, errorf(at, "is not an object: a branch of $or is an object of fields")
		}
		if len(alt.keys) == 0 {
			return nil, errorf(at, "is empty and would match everything: give it a condition or remove the $or")
		}
		bs, err := c.object(alt, keys, at, "$or")
		if err != nil {
			return nil, err
		}
		if all = append(all, bs...); len(all) > maxBranches {
			return nil, tooComplex(path)
		}
	}
	return all, nil
}

// field compiles what stands under one key.
func (c *compiler) field(v *jval, keys []string, path string) ([]branch, error) {
	if c.forEvent && len(keys) == 1 {
		if err := checkTop(keys[0], v, path); err != nil {
			return nil, err
		}
	}
	switch v.kind {
	case kindObject:
		if len(v.keys) == 0 {
			return nil, errorf(path, `is empty: give it a condition, such as {"field": [{"exists": true}]}, or remove it`)
		}
		return c.object(v, keys, path, "")
	case kindArray:
		l, absent, err := alternatives(v, path)
		if err != nil {
			return nil, err
		}
		var bs []branch
		if l != nil {
			bs = append(bs, branch{{keys: keys, leaf: l}})
		}
		if absent {
			bs = append(bs, branch{{keys: keys, absent: true}})
		}
		return bs, nil
	case kindString:
		return nil, errorf(path, "is a bare value: wrap it: [%q]", v.s)
	case kindNumber:
		return nil, errorf(path, "is a bare value: wrap it: [%s]", v.s)
	case kindTrue, kindFalse, kindNull:
	}
	return nil, errorf(path, "is a bare value: wrap it: [%s]", v.text())
}

// checkTop refuses keys at the top that no event can have.
func checkTop(key string, v *jval, path string) error {
	if key == "data" {
		return nil
	}
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		if near := Nearest(key, attributes()); near != "" {
			return errorf(path, "is not an attribute: did you mean %q? Fields of the payload stand under \"data\"", near)
		}
		return errorf(path, "is not an attribute (those are lower-case letters and digits): fields of the payload stand under \"data\"")
	}
	if v.kind == kindObject {
		return errorf(path, "is an attribute and has no fields: give a list of alternatives; fields of the payload stand under \"data\"")
	}
	return nil
}

// product combines every branch of a with every one of b. Where both name a
// path, b's condition replaces a's: an inner $or overrides what stands outside.
func product(a, b []branch, path string) ([]branch, error) {
	if len(a) == 1 && len(a[0]) == 0 {
		return b, nil
	}
	if len(a)*len(b) > maxBranches {
		return nil, tooComplex(path)
	}
	out := make([]branch, 0, len(a)*len(b))
	total := 0
	for _, x := range a {
		for _, y := range b {
			z := make(branch, 0, len(x)+len(y))
			for _, c := range x {
				if !slices.ContainsFunc(y, func(o cond) bool { return slices.Equal(o.keys, c.keys) }) {
					z = append(z, c)
				}
			}
			z = append(z, y...)
			if total += len(z); total > maxConds {
				return nil, tooComplex(path)
			}
			out = append(out, z)
		}
	}
	return out, nil
}

func tooComplex(path string) error {
	return errorf(path, "multiplies to more than %d branches or %d conditions: split the rule", maxBranches, maxConds)
}
