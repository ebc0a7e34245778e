package transforms

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"millrace/bus/event"
)

type setConfig struct {
	Set map[string]json.RawMessage `json:"set" doc:"Values by path. Text is an expression; a number, boolean, null, object or list is that value itself." spec:"required"`
	common
}

func setKind() Kind {
	return kindOfStep(Kind{
		Name:    "set",
		Summary: "Sets fields of data, and attributes, to the values of expressions.",
		Docs: `All expressions see the event as it came into the step, so their order does not matter; parents are set before
what is inside them. Missing objects on the way are made, null counts as missing, and a list grows at its end; a scalar on
the way fails the event. An expression that only names a place in data (` + "`data.order.id`" + `) copies the text there
as it is, or sets null where nothing is. Null removes an attribute. A constant text is written in quotes inside the
quotes: ` + "`\"'big'\"`" + `. Setting ` + "`data`" + ` itself works on any content type and makes it JSON.`,
		Example: `set: {data.size: "'big'", data.total: "data.price * data.count", subject: data.order.id}`,
	}, func(c *compiler, config setConfig) (step, error) { return c.compileSet("set", config.Set, false) })
}

// setStep is set and setAttributes.
type setStep struct {
	targets []target
	data    bool // some target is in data
	all     bool // one is data itself: what was there does not matter
}

type target struct {
	Path
	value operand
}

// compileSet reads paths and values; onlyAttrs refuses data.
func (c *compiler) compileSet(name string, values map[string]json.RawMessage, onlyAttrs bool) (step, error) {
	st := &setStep{}
	for _, src := range slices.Sorted(maps.Keys(values)) {
		t, err := c.compileTarget(src, values[src], onlyAttrs)
		if err != nil {
			return nil, at(name+"."+src, err)
		}
		for i := range st.targets {
			if o := &st.targets[i]; o.attr == t.attr && slices.Equal(o.segs, t.segs) {
				return nil, &Error{Field: name + "." + src, Msg: "is set twice: also as " + o.src}
			}
		}
		st.targets = append(st.targets, t)
		st.data = st.data || t.isData()
		st.all = st.all || t.isData() && len(t.segs) == 0
	}
	slices.SortStableFunc(st.targets, func(a, b target) int { return len(a.segs) - len(b.segs) })
	return st, nil
}

func (c *compiler) compileTarget(src string, value json.RawMessage, onlyAttrs bool) (target, error) {
	p, err := ParsePath(src)
	if err != nil {
		return target{}, err
	}
	switch {
	case p.isData() && onlyAttrs:
		return target{}, errors.New("is not an attribute: use a set step for data")
	case p.star:
		return target{}, errors.New("cannot set every element: [*] is for remove, keep and cast")
	case !p.isData():
		if err := canSet(p.attr); err != nil {
			return target{}, err
		}
	}
	op, err := c.compileOperand(value)
	if err != nil {
		return target{}, err
	}
	if !p.isData() && op.constant != nil { // say at once what can never work
		v, err := attrOfJSON(op.constant)
		if err == nil {
			_, err = setAttr(event.Event{Source: "/", Type: "t"}, p.attr, v)
		}
		if err != nil {
			return target{}, err
		}
	}
	return target{Path: p, value: op}, nil
}

func (st *setStep) apply(s *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	gone := e.Tombstone()
	d := doc{b: e.Data}
	if err := needJSON(&e); st.data && !gone && err != nil {
		if !st.all {
			return out, err
		}
		d.b, e.ContentType = []byte("null"), "application/json"
	}
	for i := range st.targets {
		t := &st.targets[i]
		if !t.isData() {
			v, err := t.value.attr(s)
			if gone && (err != nil || v.absent) && t.value.constant == nil {
				continue // the expression is about data that is gone
			}
			if err == nil {
				e, err = setAttr(e, t.attr, v)
			}
			if err != nil {
				return out, fmt.Errorf("%s: %w", t.src, err)
			}
			continue
		}
		if gone {
			continue
		}
		raw, err := t.value.json(s.raw[:0], s)
		if err != nil {
			return out, fmt.Errorf("%s: %w", t.src, err)
		}
		s.raw = raw
		if s.buf, err = d.set(t.segs, raw, s.buf); err != nil {
			return out, err
		}
	}
	if !gone {
		e.Data = d.b
	}
	return append(out, e), nil
}
