package transforms

import (
	"errors"
	"fmt"

	"millrace/bus/event"
)

type removeConfig struct {
	Remove []string `json:"remove" doc:"Paths of what goes." spec:"required"`
	common
}

func removeKind() Kind {
	return kindOfStep(Kind{
		Name:    "remove",
		Summary: "Removes fields of data, elements of lists, and optional attributes.",
		Docs: `What is not there is no error. Indexes count as the list came in, whatever else is removed. ` + "`[*]`" + ` is every
element: ` + "`data.items[*].price`" + `.`,
		Example: `remove: [data.card, "data.items[*].cost", subject]`,
	}, func(_ *compiler, config removeConfig) (step, error) {
		paths, err := parsePaths("remove", config.Remove)
		if err != nil {
			return nil, err
		}
		st := &removeStep{}
		for i := range paths {
			p := &paths[i]
			switch {
			case p.isData() && len(p.segs) == 0:
				err = errors.New("cannot be removed whole: that would delete the key; use filter to drop the event")
			case p.isData():
				st.data = true
			case p.attr == "source" || p.attr == "type":
				err = errors.New("is required and cannot be removed")
			default:
				err = canSet(p.attr)
				st.attrs = append(st.attrs, p.attr)
			}
			if err != nil {
				return nil, at(fmt.Sprintf("remove[%d]", i), fmt.Errorf("%s: %w", p.src, err))
			}
		}
		st.tree = treeOf(paths)
		return st, nil
	})
}

// parsePaths reads a list of paths.
func parsePaths(name string, list []string) ([]Path, error) {
	paths := make([]Path, len(list))
	for i, src := range list {
		p, err := ParsePath(src)
		if err != nil {
			return nil, at(fmt.Sprintf("%s[%d]", name, i), fmt.Errorf("%s: %w", src, err))
		}
		paths[i] = p
	}
	return paths, nil
}

type removeStep struct {
	tree  *tree
	data  bool
	attrs []string
}

func (st *removeStep) apply(_ *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	for _, name := range st.attrs {
		var err error
		if e, err = setAttr(e, name, attrValue{absent: true}); err != nil {
			return out, err
		}
	}
	if st.data && !e.Tombstone() {
		if err := needJSON(&e); err != nil {
			return out, err
		}
		r := rewriter{b: e.Data, others: true, leaf: func(dst, _ []byte, _ int) ([]byte, bool, error) { return dst, false, nil }}
		data, err := r.root(st.tree)
		if err != nil {
			return out, err
		}
		e.Data = data
	}
	return append(out, e), nil
}
