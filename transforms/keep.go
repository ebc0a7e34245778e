package transforms

import (
	"fmt"

	"millrace/bus/event"
)

type keepConfig struct {
	Keep []string `json:"keep" doc:"Paths in data of what stays." spec:"required"`
	common
}

func keepKind() Kind {
	return kindOfStep(Kind{
		Name:    "keep",
		Summary: "Keeps the named fields of data and drops the rest; attributes stay.",
		Docs: `Objects of which nothing is kept are dropped, except the outermost and the elements of ` + "`[*]`" + `, which become
empty. Kept elements of a list move up. The order and the text of what stays do not change.`,
		Example: `keep: [data.id, data.customer.name, "data.items[*].sku"]`,
	}, func(_ *compiler, config keepConfig) (step, error) {
		paths, err := parsePaths("keep", config.Keep)
		if err != nil {
			return nil, err
		}
		for i := range paths {
			if !paths[i].isData() {
				return nil, &Error{Field: fmt.Sprintf("keep[%d]", i), Msg: fmt.Sprintf("%s is an attribute, which is always kept: name fields of data only, such as data.%s", paths[i].src, paths[i].attr)}
			}
		}
		return &keepStep{tree: treeOf(paths)}, nil
	})
}

type keepStep struct{ tree *tree }

func (st *keepStep) apply(_ *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	if e.Tombstone() {
		return append(out, e), nil
	}
	if err := needJSON(&e); err != nil {
		return out, err
	}
	r := rewriter{b: e.Data, leaf: func(dst, raw []byte, _ int) ([]byte, bool, error) { return append(dst, raw...), true, nil }}
	data, err := r.root(st.tree)
	if err != nil {
		return out, err
	}
	e.Data = data
	return append(out, e), nil
}
