package transforms

import (
	"errors"
	"fmt"
	"strconv"

	"millrace/bus/event"
)

type splitConfig struct {
	Split struct {
		Path string `json:"path" doc:"The list, as a path in data." spec:"required"`
		Into string `json:"into" doc:"Where each element goes in data, of which all but the list stays. Without it the element is the whole new data."`
	} `json:"split" doc:"What to split." spec:"required"`
	common
}

func splitKind() Kind {
	return kindOfStep(Kind{
		Name:    "split",
		Summary: "Makes one event of each element of a list.",
		Docs: `The new events keep the attributes; their ids are the old id, a slash and the element's index from 0. An empty list
drops the event; what is not a list, or not there, fails it. Tombstones pass.`,
		Example: `split: {path: data.items, into: data.item}`,
	}, func(_ *compiler, config splitConfig) (step, error) {
		st := &splitStep{}
		var err error
		if st.path, err = dataPath(config.Split.Path); err != nil {
			return nil, at("split.path", err)
		}
		if config.Split.Into == "" {
			return st, nil
		}
		into, err := dataPath(config.Split.Into)
		if err == nil && len(into.segs) == 0 {
			err = errors.New("leave it out to make the element the whole data")
		}
		if err != nil {
			return nil, at("split.into", err)
		}
		st.into = &into
		st.tree = treeOf([]Path{st.path})
		return st, nil
	})
}

// dataPath reads a path to one place in data.
func dataPath(src string) (Path, error) {
	p, err := ParsePath(src)
	switch {
	case err != nil:
		return p, err
	case !p.isData():
		return p, fmt.Errorf("%s is an attribute: a path in data is needed, such as data.%s", src, src)
	case p.star:
		return p, errors.New("[*] is for remove, keep and cast")
	}
	return p, nil
}

type splitStep struct {
	path Path
	into *Path // nil: the element is all
	tree *tree // of path
}

func (st *splitStep) apply(s *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	if e.Tombstone() {
		return append(out, e), nil
	}
	if err := needJSON(&e); err != nil {
		return out, err
	}
	list, err := valueAt(e.Data, st.path.segs)
	switch {
	case err != nil:
		return out, err
	case list == nil:
		return out, fmt.Errorf("%s is not there", st.path.src)
	case list[0] != '[':
		return out, fmt.Errorf("%s is %s, not a list", st.path.src, kindOf(list[0]))
	}
	rest := []byte("{}")
	if st.into != nil && len(st.path.segs) > 0 {
		r := rewriter{b: e.Data, others: true, leaf: func(dst, _ []byte, _ int) ([]byte, bool, error) { return dst, false, nil }}
		if rest, err = r.root(st.tree); err != nil {
			return out, err
		}
	}
	w := walkAt(list, 0)
	for it := (item{}); w.next(&it); {
		one := e
		one.ID = e.ID + "/" + strconv.Itoa(it.index)
		one.Data = list[it.val:it.vend:it.vend]
		if st.into != nil {
			d := doc{b: rest}
			if s.buf, err = d.set(st.into.segs, one.Data, s.buf); err != nil {
				return out, err
			}
			one.Data = d.b
		}
		out = append(out, one)
	}
	return out, w.err
}
