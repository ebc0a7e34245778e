package transforms

import (
	"errors"
	"fmt"
	"slices"

	"millrace/bus/event"
)

// doc is JSON text that is edited in place once it is our own copy: what is not
// touched keeps its bytes.
type doc struct {
	b    []byte
	ours bool
}

// splice replaces [from, to) by with.
func (d *doc) splice(from, to int, with []byte) {
	if !d.ours {
		b := make([]byte, 0, len(d.b)+len(with)+64)
		b = append(b, d.b[:from]...)
		b = append(b, with...)
		d.b, d.ours = append(b, d.b[to:]...), true
		return
	}
	d.b = slices.Replace(d.b, from, to, with...)
}

// set puts raw at the place segs lead to. Missing objects on the way are made,
// null counts as missing; a list grows by one at its end. A scalar on the way, or
// an index further out, is an error that names the place.
func (d *doc) set(segs []seg, raw, buf []byte) ([]byte, error) {
	i := skipSpace(d.b, 0)
	for n, s := range segs {
		if i >= len(d.b) {
			return buf, errBroken
		}
		c := d.b[i]
		if c == 'n' {
			end := skipValue(d.b, i)
			buf, err := build(buf[:0], segs, n, raw)
			if err == nil {
				d.splice(i, end, buf)
			}
			return buf, err
		}
		if s.list && c != '[' || !s.list && c != '{' {
			want := "an object"
			if s.list {
				want = "a list"
			}
			return buf, fmt.Errorf("%s is %s, not %s: %s cannot be set", upTo(segs, n), kindOf(c), want, upTo(segs, len(segs)))
		}
		w, at, last := walkAt(d.b, i), -1, -1
		var it item
		for w.next(&it) {
			if s.list && it.index == s.index || !s.list && keyIs(d.b, &it, s.key) {
				at = it.val
			}
			last = it.vend
		}
		if w.err != nil {
			return buf, w.err
		}
		if at >= 0 {
			i = at
			continue
		}
		if s.list && s.index != w.n {
			return buf, fmt.Errorf("%s is beyond the list, which has %d elements", upTo(segs, n+1), w.n)
		}
		buf = buf[:0]
		if last < 0 {
			last = i + 1
		} else {
			buf = append(buf, ',')
		}
		if !s.list {
			buf = append(event.AppendQuoted(buf, s.key), ':')
		}
		buf, err := build(buf, segs, n+1, raw)
		if err == nil {
			d.splice(last, last, buf)
		}
		return buf, err
	}
	end := skipValue(d.b, i)
	if end < 0 {
		return buf, errBroken
	}
	d.splice(i, end, raw)
	return buf, nil
}

// build appends raw wrapped in what segs[n:] need around it.
func build(dst []byte, segs []seg, n int, raw []byte) ([]byte, error) {
	for i := n; i < len(segs); i++ {
		if !segs[i].list {
			dst = append(event.AppendQuoted(append(dst, '{'), segs[i].key), ':')
			continue
		}
		if segs[i].index != 0 {
			return dst, fmt.Errorf("%s is beyond the list, which does not exist yet", upTo(segs, i+1))
		}
		dst = append(dst, '[')
	}
	dst = append(dst, raw...)
	for i := len(segs) - 1; i >= n; i-- {
		if segs[i].list {
			dst = append(dst, ']')
		} else {
			dst = append(dst, '}')
		}
	}
	return dst, nil
}

// tree is a set of places in data, for going over them in one walk.
type tree struct {
	leaf  int // 1 + number of the place that ends here; 0 = none does
	keys  []branch
	elems []branch
	all   *tree // [*]
}

type branch struct {
	key   string
	index int
	*tree
}

// treeOf makes a tree of the data paths among paths; the leaf of paths[i] is i+1.
func treeOf(paths []Path) *tree {
	t := &tree{}
	for i := range paths {
		if paths[i].isData() {
			t.add(paths[i].segs, i+1)
		}
	}
	t.spread()
	return t
}

func (t *tree) add(segs []seg, leaf int) {
	for _, s := range segs {
		t = t.child(s)
	}
	if t.leaf == 0 {
		t.leaf = leaf
	}
}

func (t *tree) child(s seg) *tree {
	switch {
	case s.list && s.index == whole:
		if t.all == nil {
			t.all = &tree{}
		}
		return t.all
	case s.list:
		if c := t.at(s.index); c != nil && c != t.all {
			return c
		}
		c := &tree{}
		t.elems = append(t.elems, branch{index: s.index, tree: c})
		return c
	}
	for i := range t.keys {
		if t.keys[i].key == s.key {
			return t.keys[i].tree
		}
	}
	c := &tree{}
	t.keys = append(t.keys, branch{key: s.key, tree: c})
	return c
}

// at returns the branch for an element.
func (t *tree) at(index int) *tree {
	for i := range t.elems {
		if t.elems[i].index == index {
			return t.elems[i].tree
		}
	}
	return t.all
}

// spread puts what holds for every element into the branches of single ones.
func (t *tree) spread() {
	for _, b := range t.elems {
		if t.all != nil {
			b.merge(t.all)
		}
		b.spread()
	}
	for _, b := range t.keys {
		b.spread()
	}
	if t.all != nil {
		t.all.spread()
	}
}

func (t *tree) merge(o *tree) {
	if t.leaf == 0 {
		t.leaf = o.leaf
	}
	for _, b := range o.keys {
		t.child(seg{key: b.key}).merge(b.tree)
	}
	for _, b := range o.elems {
		t.child(seg{list: true, index: b.index}).merge(b.tree)
	}
	if o.all != nil {
		t.child(seg{list: true, index: whole}).merge(o.all)
	}
}

// find returns the number of the branch for a member, or -1.
func (t *tree) find(b []byte, it *item) int {
	for i := range t.keys {
		if keyIs(b, it, t.keys[i].key) {
			return i
		}
	}
	return -1
}

// rewriter goes over data along a tree.
type rewriter struct {
	b []byte
	// leaf appends what becomes of the value at a place of the tree; keep false
	// drops it.
	leaf func(dst, raw []byte, place int) (out []byte, keep bool, err error)
	// others says whether what the tree does not lead to stays.
	others bool
	// careful looks for the last of several members with one key, which is the one
	// that counts; without it they end the walk with errTwice.
	careful bool
}

// errTwice asks for the walk again, carefully: where only the named places stay,
// a member must not come to light because the one that hides it goes.
var errTwice = errors.New("a key stands twice")

// value appends what becomes of the value [from, to).
func (r *rewriter) value(dst []byte, from, to int, t *tree) (out []byte, keep bool, err error) {
	if t.leaf > 0 {
		return r.leaf(dst, r.b[from:to], t.leaf-1)
	}
	list := r.b[from] == '['
	if !list && r.b[from] != '{' || list && t.all == nil && len(t.elems) == 0 || !list && len(t.keys) == 0 {
		if !r.others {
			return dst, false, nil
		}
		return append(dst, r.b[from:to]...), true, nil
	}
	dst = append(dst, r.b[from])
	w, kept := walkAt(r.b, from), 0
	var it item
	var seen uint64
	for w.next(&it) {
		var sub *tree
		if list {
			sub = t.at(it.index)
		} else if i := t.find(r.b, &it); i >= 0 {
			switch bit := uint64(1) << (i & 63); {
			case r.others:
			case r.careful && r.hidden(w, t.keys[i].key):
				continue
			case !r.careful && seen&bit != 0:
				return dst, false, errTwice
			default:
				seen |= bit
			}
			sub = t.keys[i].tree
		}
		before := len(dst)
		if kept > 0 {
			dst = append(dst, ',')
		}
		stays := r.others
		if sub == nil {
			if stays {
				dst = append(dst, r.b[it.from:it.vend]...)
			}
		} else {
			dst = append(dst, r.b[it.from:it.val]...)
			at := len(dst)
			dst, stays, err = r.value(dst, it.val, it.vend, sub)
			if err != nil {
				return dst, false, err
			}
			if !stays && list && sub == t.all && r.b[it.val] == '{' && !r.others {
				dst, stays = append(dst[:at], "{}"...), true // the others keep their index
			}
		}
		if !stays {
			dst = dst[:before]
			continue
		}
		kept++
	}
	if w.err != nil {
		return dst, false, w.err
	}
	if kept > 0 || r.others && w.n == 0 {
		dst = append(dst, r.b[w.i:w.end-1]...) // space before the bracket
	}
	return append(dst, r.b[w.end-1]), kept > 0 || r.others, nil
}

// hidden reports whether the rest of a walk has another member with the key.
func (r *rewriter) hidden(w walk, key string) bool {
	for it := (item{}); w.next(&it); {
		if keyIs(r.b, &it, key) {
			return true
		}
	}
	return false
}

// root rewrites the whole text. When nothing of it is kept, an empty object or
// list is left.
func (r *rewriter) root(t *tree) ([]byte, error) {
	from := skipSpace(r.b, 0)
	to := skipValue(r.b, from)
	if to < 0 {
		return nil, errBroken
	}
	dst := append(make([]byte, 0, len(r.b)+16), r.b[:from]...)
	dst, keep, err := r.value(dst, from, to, t)
	switch {
	case errors.Is(err, errTwice):
		r.careful = true
		return r.root(t)
	case err != nil:
		return nil, err
	case !keep && r.b[from] == '[':
		return []byte("[]"), nil
	case !keep:
		return []byte("{}"), nil
	}
	return append(dst, r.b[to:]...), nil
}

// rename gives the member that segs lead to another key where it stands. It does
// nothing when the object has several of the old key or one of the new.
func (d *doc) rename(segs []seg, key string) (done bool, err error) {
	from, _, found, err := locate(d.b, segs[:len(segs)-1])
	if err != nil || !found || d.b[from] != '{' {
		return false, err
	}
	old, n := item{}, 0
	w := walkAt(d.b, from)
	for it := (item{}); w.next(&it); {
		switch {
		case keyIs(d.b, &it, segs[len(segs)-1].key):
			old = it
			n++
		case keyIs(d.b, &it, key):
			n = 2
		}
	}
	if w.err != nil || n != 1 {
		return false, w.err
	}
	d.splice(old.key, old.kend, event.AppendQuoted(nil, key))
	return true, nil
}
