package pattern

// holds reports whether the walked document satisfies all of c's conditions on
// JSON paths.
func (s *Scratch) holds(c *conj) bool {
	joined := false
	for _, p := range c.joints {
		joined = joined || s.slots[p].array == s.epoch
	}
	// Without an array that conditions share each path stands for itself. With one,
	// a value somewhere is still needed, and this finds most misses.
	for i := range c.conds {
		cd := &c.conds[i]
		if cd.leaf != nil && !s.some(cd) || cd.leaf == nil && !joined && s.slots[cd.path].scalars == s.epoch {
			return false
		}
	}
	return !joined || s.fits(c.tree, 0)
}

// some reports whether any scalar on the path matches.
func (s *Scratch) some(c *pathCond) bool {
	slot := &s.slots[c.path]
	if slot.scalars != s.epoch {
		return false
	}
	for i := slot.last; i >= 0; i = s.tape[i].same {
		if c.leaf.match(s.scalarAt(&s.tape[i])) {
			return true
		}
	}
	return false
}

// fits reports whether the value of entry i satisfies t. In an array one element
// must satisfy all of t; if t only asks that things be absent, every element must.
func (s *Scratch) fits(t *tree, i int32) bool {
	e := &s.tape[i]
	if e.kind == kindArray {
		for k := i + 1; k < e.end; k = s.tape[k].end {
			if s.fits(t, k) == t.wanted {
				return t.wanted
			}
		}
		return !t.wanted
	}
	if t.here {
		scalar := e.kind != kindObject
		if t.leaf == nil && scalar || t.leaf != nil && (!scalar || !t.leaf.match(s.scalarAt(e))) {
			return false
		}
	}
	for _, kid := range t.kids {
		if !s.fitsIn(kid, i) {
			return false
		}
	}
	return true
}

// fitsIn finds kid's values in entry i, an object or a scalar. A key given twice
// counts twice.
func (s *Scratch) fitsIn(kid *tree, i int32) bool {
	for k := i + 1; k < s.tape[i].end; k = s.tape[k].end {
		if s.tape[k].path == kid.path && s.fits(kid, k) == kid.wanted {
			return kid.wanted
		}
	}
	return !kid.wanted
}
