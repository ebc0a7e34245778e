package transforms

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millrace/bus/event"
)

// The model: JSON as Go values, with numbers as their text.

func decode(t interface{ Fatalf(string, ...any) }, raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	if d.More() {
		t.Fatalf("more than one value: %s", raw)
	}
	return v
}

// modelGet returns the value at segs.
func modelGet(v any, segs []seg) (any, bool) {
	for _, s := range segs {
		switch c := v.(type) {
		case map[string]any:
			inner, ok := c[s.key]
			if s.list || !ok {
				return nil, false
			}
			v = inner
		case []any:
			if !s.list || s.index >= len(c) {
				return nil, false
			}
			v = c[s.index]
		default:
			return nil, false
		}
	}
	return v, true
}

// modelSet returns v with the value at segs set; ok false says that the way is
// barred.
func modelSet(v any, segs []seg, to any) (out any, ok bool) {
	if len(segs) == 0 {
		return to, true
	}
	s := segs[0]
	if v == nil {
		v = map[string]any{}
		if s.list {
			v = []any{}
		}
	}
	switch c := v.(type) {
	case map[string]any:
		if s.list {
			return nil, false
		}
		if c[s.key], ok = modelSet(c[s.key], segs[1:], to); !ok {
			return nil, false
		}
		return c, true
	case []any:
		if !s.list || s.index > len(c) {
			return nil, false
		}
		if s.index == len(c) {
			c = append(c, nil)
		}
		c[s.index], ok = modelSet(c[s.index], segs[1:], to)
		return c, ok
	}
	return nil, false
}

// modelRemove returns what is left of v, at a place, when what paths name goes.
func modelRemove(v any, at []seg, paths []Path) (any, bool) {
	here, inside := named(paths, at)
	if here || !inside {
		return v, !here
	}
	switch c := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range c {
			if x, stays := modelRemove(x, append(slices.Clone(at), seg{key: k}), paths); stays {
				out[k] = x
			}
		}
		return out, true
	case []any:
		out := []any{}
		for i, x := range c {
			if x, stays := modelRemove(x, append(slices.Clone(at), seg{list: true, index: i}), paths); stays {
				out = append(out, x)
			}
		}
		return out, true
	}
	return v, true
}

// modelKeep returns what is left of v when only what paths name stays. Objects in
// a list that only [*] led to stay, empty.
func modelKeep(v any, at []seg, paths []Path) (any, bool) {
	here, inside := named(paths, at)
	if here || !inside {
		return v, here
	}
	switch c := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range c {
			if x, stays := modelKeep(x, append(slices.Clone(at), seg{key: k}), paths); stays {
				out[k] = x
			}
		}
		return out, len(out) > 0
	case []any:
		out := []any{}
		for i, x := range c {
			place := append(slices.Clone(at), seg{list: true, index: i})
			kept, stays := modelKeep(x, place, paths)
			if _, object := x.(map[string]any); !stays && object && onlyStar(paths, place) {
				kept, stays = map[string]any{}, true
			}
			if stays {
				out = append(out, kept)
			}
		}
		return out, len(out) > 0
	}
	return v, false
}

// named says whether a path ends at a place or leads further into it.
func named(paths []Path, at []seg) (here, inside bool) {
	for _, p := range paths {
		if len(p.segs) < len(at) {
			continue
		}
		matches := true
		for i, s := range at {
			q := p.segs[i]
			matches = matches && (q == s || q.list && s.list && q.index == whole)
		}
		here = here || matches && len(p.segs) == len(at)
		inside = inside || matches && len(p.segs) > len(at)
	}
	return here, inside
}

// onlyStar says that the last step to a place that paths lead into is [*] in all.
func onlyStar(paths []Path, at []seg) bool {
	star := false
	for i := range paths {
		if _, inside := named(paths[i:i+1], at); !inside {
			continue
		}
		if paths[i].segs[len(at)-1].index != whole {
			return false
		}
		star = true
	}
	return star
}

var modelKeys = []string{"a", "b", "a.b", "x[0]", `\`, "*", "#", "é", "", "@this", "A"}

// drawValue makes JSON over few keys, so that paths hit; with varying white space
// and escapes, and now and then one key twice.
func drawValue(t *rapid.T, dst []byte, depth int) []byte {
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind = rapid.SampledFrom([]int{5, 5, 5, 6}).Draw(t, "root")
	} else if depth > 3 {
		kind %= 5
	}
	space := func() {
		dst = append(dst, rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")...)
	}
	n := rapid.IntRange(0, 4).Draw(t, "n")
	switch kind {
	case 0:
		return append(dst, "null"...)
	case 1:
		return append(dst, rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")...)
	case 2:
		return append(dst, rapid.SampledFrom([]string{"0", "-1.50", "1e3", "228930314431312345"}).Draw(t, "number")...)
	case 3, 4:
		return append(dst, rapid.SampledFrom([]string{`""`, `"x"`, `"{\"a\":[1]}"`, `"\\"`, `"\\\""`, `"]}\u00e9,"`}).Draw(t, "string")...)
	case 5:
		dst = append(dst, '{')
		space()
		for i := range n {
			if i > 0 {
				dst = append(dst, ',')
				space()
			}
			key := rapid.SampledFrom(modelKeys).Draw(t, "key")
			if key == "a" && rapid.Bool().Draw(t, "escape") {
				dst = append(dst, `"\u0061"`...)
			} else {
				dst = event.AppendQuoted(dst, key)
			}
			space()
			dst = append(dst, ':')
			space()
			dst = drawValue(t, dst, depth+1)
			space()
		}
		return append(dst, '}')
	}
	dst = append(dst, '[')
	space()
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
			space()
		}
		dst = drawValue(t, dst, depth+1)
		space()
	}
	return append(dst, ']')
}

// drawPath makes a path in data, mostly to a place that v has; stars allows [*].
func drawPath(t *rapid.T, v any, least int, stars bool) Path {
	var src strings.Builder
	src.WriteString("data")
	for range rapid.IntRange(least, 3).Draw(t, "segments") {
		s := seg{key: rapid.SampledFrom(modelKeys).Filter(func(k string) bool { return k != "" }).Draw(t, "key")}
		if rapid.IntRange(0, 4).Draw(t, "list") == 0 {
			s = seg{list: true, index: rapid.IntRange(0, 3).Draw(t, "index")}
		}
		if rapid.IntRange(0, 3).Draw(t, "hit") > 0 {
			switch c := v.(type) {
			case map[string]any:
				if keys := slices.Sorted(maps.Keys(c)); len(keys) > 0 && keys[len(keys)-1] != "" {
					s = seg{key: keys[rapid.IntRange(0, len(keys)-1).Draw(t, "which")]}
				}
				if s.key == "" {
					s = seg{key: "a"}
				}
			case []any:
				s = seg{list: true, index: rapid.IntRange(0, max(len(c)-1, 0)).Draw(t, "which")}
			}
		}
		v, _ = modelGet(v, []seg{s})
		switch {
		case s.list && stars && rapid.Bool().Draw(t, "star"):
			src.WriteString("[*]")
		case s.list:
			fmt.Fprintf(&src, "[%d]", s.index)
		default:
			src.WriteString("." + escapeKey(s.key))
		}
	}
	p, err := ParsePath(src.String())
	if err != nil {
		t.Fatalf("%s: %v", src.String(), err)
	}
	if got := upTo(p.segs, len(p.segs)); got != src.String() {
		t.Fatalf("%s is read as %s", src.String(), got)
	}
	return p
}

// TestEditModel compares get, set, remove and keep on JSON text with the same on
// decoded values.
func TestEditModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := drawValue(t, nil, 0)
		before := slices.Clone(raw)
		p := drawPath(t, decode(t, raw), 0, false)

		want, ok := modelGet(decode(t, raw), p.segs)
		from, to, found, err := locate(raw, p.segs)
		if err != nil || found != ok || found && !reflect.DeepEqual(decode(t, raw[from:to]), want) {
			t.Fatalf("get %s of %s: %s %v %v, want %v %v", p.src, raw, raw[from:to], found, err, want, ok)
		}

		value := drawValue(t, nil, 1)
		d := doc{b: raw}
		_, err = d.set(p.segs, value, nil)
		want, ok = modelSet(decode(t, raw), p.segs, decode(t, value))
		if ok != (err == nil) || ok && !reflect.DeepEqual(decode(t, d.b), want) {
			t.Fatalf("set %s of %s to %s: %s %v, want %v %v", p.src, raw, value, d.b, err, want, ok)
		}
		if ok {
			again := doc{b: d.b}
			if _, err := again.set(p.segs, value, nil); err != nil || !bytes.Equal(again.b, d.b) {
				t.Fatalf("set %s of %s twice: %s, then %s %v", p.src, raw, d.b, again.b, err)
			}
		}

		paths := []Path{drawPath(t, decode(t, raw), 1, true), drawPath(t, decode(t, raw), 1, true), drawPath(t, decode(t, raw), 1, true)}
		for _, keep := range []bool{false, true} {
			r := rewriter{b: raw, others: !keep, leaf: func(dst, raw []byte, _ int) ([]byte, bool, error) {
				return append(dst, raw...), keep, nil
			}}
			got, err := r.root(treeOf(paths))
			if err != nil {
				t.Fatalf("%v: %v of %s", err, paths, raw)
			}
			want, _ := modelRemove(decode(t, raw), nil, paths)
			if keep {
				var some bool
				if want, some = modelKeep(decode(t, raw), nil, paths); !some && raw[0] == '[' {
					want = []any{}
				} else if !some {
					want = map[string]any{}
				}
			}
			if !reflect.DeepEqual(decode(t, got), want) {
				t.Fatalf("keep=%v %v of %s: %s, want %v", keep, paths, raw, got, want)
			}
		}
		if !bytes.Equal(raw, before) {
			t.Fatalf("the input was changed")
		}
	})
}
