package transforms

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"millrace/bus/event"
)

type renameConfig struct {
	Rename map[string]string `json:"rename" doc:"New paths by old paths." spec:"required"`
	common
}

func renameKind() Kind {
	return kindOfStep(Kind{
		Name:    "rename",
		Summary: "Moves fields of data, and attributes, to other names or places.",
		Docs: `All moves happen at once, so two fields may change places. What is not there is not moved; what stood at the new
place is replaced. A field that only changes its key keeps its position in the object. A field of data may become an
attribute and the other way round.`,
		Example: `rename: {data.cust_id: data.customer.id, data.kind: subject}`,
	}, func(_ *compiler, config renameConfig) (step, error) {
		st := &renameStep{}
		for _, from := range slices.Sorted(maps.Keys(config.Rename)) {
			m, err := compileMove(from, config.Rename[from])
			if err != nil {
				return nil, at("rename."+from, err)
			}
			for i := range st.moves {
				o := &st.moves[i]
				if o.to.attr == m.to.attr && related(&o.to, &m.to) {
					return nil, &Error{Field: "rename." + from, Msg: fmt.Sprintf("goes to %s, but %s goes to %s", m.to.src, o.from.src, o.to.src)}
				}
				if related(&o.from, &m.from) {
					return nil, &Error{Field: "rename." + from, Msg: fmt.Sprintf("overlaps with %s, which moves too: use two steps", o.from.src)}
				}
			}
			st.moves = append(st.moves, m)
		}
		st.finish()
		return st, nil
	})
}

func compileMove(from, to string) (move, error) {
	var m move
	var err error
	if m.from, err = ParsePath(from); err != nil {
		return m, err
	}
	if m.to, err = ParsePath(to); err != nil {
		return m, fmt.Errorf("the new path: %w", err)
	}
	for _, p := range []*Path{&m.from, &m.to} {
		switch {
		case p.star:
			return m, fmt.Errorf("%s cannot be moved: [*] is for remove, keep and cast", p.src)
		case !p.isData():
			err = canSet(p.attr)
		case len(p.segs) == 0:
			err = errors.New("data cannot be moved as a whole: use set or template")
		}
		if err != nil {
			return m, err
		}
	}
	if m.from.attr == "source" || m.from.attr == "type" {
		return m, fmt.Errorf("%s is required and cannot be moved away: use set", m.from.attr)
	}
	if m.from.attr == m.to.attr && slices.Equal(m.from.segs, m.to.segs) {
		return m, errors.New("moves to where it is: leave it out")
	}
	return m, nil
}

type renameStep struct {
	moves []move
	tree  *tree // of the places in data that moves leave: renamed in place, they are not there any more
	data  bool  // something in data is moved
}

type move struct {
	from, to Path
	// inPlace says that only the key changes and no other move comes near.
	inPlace bool
}

func (st *renameStep) finish() {
	from := make([]Path, len(st.moves))
	for i := range st.moves {
		m := &st.moves[i]
		from[i] = m.from
		st.data = st.data || m.from.isData() || m.to.isData()
		n := len(m.from.segs)
		m.inPlace = m.from.isData() && m.to.isData() && n == len(m.to.segs) &&
			under(m.to.segs, m.from.segs[:n-1]) && !m.from.segs[n-1].list && !m.to.segs[n-1].list
		for j := range st.moves {
			o := &st.moves[j]
			if i != j && (related(&m.from, &o.to) || related(&m.to, &o.from)) {
				m.inPlace = false
			}
		}
	}
	st.tree = treeOf(from)
}

func (st *renameStep) apply(_ *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	gone := e.Tombstone()
	if st.data && !gone {
		if err := needJSON(&e); err != nil {
			return out, err
		}
	}
	in := e
	d := doc{b: e.Data}
	values := make([][]byte, len(st.moves)) // what is still to be put down
	for i := range st.moves {
		m := &st.moves[i]
		switch {
		case gone && (m.from.isData() || m.to.isData()):
		case !m.from.isData():
			if raw, ok := getAttr(nil, &in, m.from.attr); ok {
				values[i] = raw
			}
		default:
			from, to, found, err := locate(in.Data, m.from.segs)
			if err != nil {
				return out, err
			}
			if found {
				values[i] = in.Data[from:to]
			}
		}
	}
	leave := false // something in data leaves its place
	for i := range st.moves {
		m := &st.moves[i]
		if values[i] == nil {
			continue
		}
		if m.inPlace {
			done, err := d.rename(m.from.segs, m.to.segs[len(m.to.segs)-1].key)
			if err != nil {
				return out, err
			}
			if done {
				values[i] = nil
				continue
			}
		}
		if m.from.isData() {
			leave = true
			continue
		}
		var err error
		if e, err = setAttr(e, m.from.attr, attrValue{absent: true}); err != nil {
			return out, fmt.Errorf("%s: %w", m.from.src, err)
		}
	}
	if leave {
		r := rewriter{b: d.b, others: true, leaf: func(dst, _ []byte, _ int) ([]byte, bool, error) { return dst, false, nil }}
		data, err := r.root(st.tree)
		if err != nil {
			return out, err
		}
		d = doc{b: data, ours: true}
	}
	var buf []byte
	for i, raw := range values {
		if raw == nil {
			continue
		}
		var err error
		to := &st.moves[i].to
		if to.isData() {
			buf, err = d.set(to.segs, raw, buf)
		} else {
			var v attrValue
			if v, err = attrOfJSON(raw); err == nil {
				e, err = setAttr(e, to.attr, v)
			}
		}
		if err != nil {
			return out, fmt.Errorf("%s to %s: %w", st.moves[i].from.src, to.src, err)
		}
	}
	if !gone {
		e.Data = d.b
	}
	return append(out, e), nil
}
