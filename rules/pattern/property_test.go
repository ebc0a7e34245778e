package pattern

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"millrace/bus/event"

	"pgregory.net/rapid"
)

// The reference matcher works as the published semantics are written: the event
// is flattened to fields that remember which element of which array they stand
// in, and a branch holds if fields can be chosen that agree on those elements.

type field struct {
	path string
	v    value
	in   map[int]int // array → element
}

type flattener struct {
	fields []field
	arrays int
}

func (f *flattener) add(v any, path string, in map[int]int) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			f.add(x, path+"\x00"+k, in)
		}
	case []any:
		id := f.arrays
		f.arrays++
		for i, x := range v {
			inner := map[int]int{id: i}
			maps.Copy(inner, in)
			f.add(x, path, inner)
		}
	case string:
		f.fields = append(f.fields, field{path, value{kindString, v}, in})
	case json.Number:
		f.fields = append(f.fields, field{path, value{kindNumber, v.String()}, in})
	case bool:
		k := kindFalse
		if v {
			k = kindTrue
		}
		f.fields = append(f.fields, field{path, value{kind: k}, in})
	case nil:
		f.fields = append(f.fields, field{path, value{kind: kindNull}, in})
	}
}

func agree(a, b map[int]int) bool {
	for k, n := range a {
		if m, ok := b[k]; ok && m != n {
			return false
		}
	}
	return true
}

func merge(a, b map[int]int) map[int]int {
	out := map[int]int{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func (f *flattener) holds(wanted, absent []cond, chosen map[int]int) bool {
	if len(wanted) > 0 {
		for _, x := range f.fields {
			if x.path == "\x00"+strings.Join(wanted[0].keys, "\x00") && agree(x.in, chosen) && wanted[0].leaf.match(x.v) &&
				f.holds(wanted[1:], absent, merge(chosen, x.in)) {
				return true
			}
		}
		return false
	}
	for _, c := range absent {
		for _, x := range f.fields {
			if x.path == "\x00"+strings.Join(c.keys, "\x00") && agree(x.in, chosen) {
				return false
			}
		}
	}
	return true
}

func reference(bs []branch, doc string) bool {
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return false
	}
	var f flattener
	f.add(v, "", nil)
	return slices.ContainsFunc(bs, func(b branch) bool {
		var wanted, absent []cond
		for _, c := range b {
			if c.absent {
				absent = append(absent, c)
			} else {
				wanted = append(wanted, c)
			}
		}
		return f.holds(wanted, absent, nil)
	})
}

var keys = rapid.SampledFrom([]string{"a", "b", "c", "d\\u0041", "é"})

func genDoc(t *rapid.T, depth int) string {
	n := rapid.IntRange(0, 9).Draw(t, "kind")
	switch {
	case depth > 0 && n < 4:
		var parts []string
		seen := map[string]bool{}
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			if k := keys.Draw(t, "key"); !seen[k] {
				seen[k] = true
				parts = append(parts, fmt.Sprintf("%q:%s", k, genDoc(t, depth-1)))
			}
		}
		return strings.ReplaceAll("{"+strings.Join(parts, ", ")+"}", `\\u`, `\u`)
	case depth > 0 && n < 7:
		parts := make([]string, rapid.IntRange(0, 3).Draw(t, "elements"))
		for i := range parts {
			parts[i] = genDoc(t, depth-1)
		}
		return "[ " + strings.Join(parts, ",") + "]"
	}
	return rapid.SampledFrom([]string{`"x"`, `"y"`, `"x\u0079"`, `1`, `1.0`, `-2e0`, `true`, `null`, `""`}).Draw(t, "scalar")
}

func genPattern(t *rapid.T, depth int, or bool) string {
	var parts []string
	seen := map[string]bool{}
	for range rapid.IntRange(1, 3).Draw(t, "fields") {
		k := keys.Draw(t, "key")
		if seen[k] {
			continue
		}
		seen[k] = true
		var val string
		if depth > 0 && rapid.Bool().Draw(t, "nested") {
			val = genPattern(t, depth-1, or)
		} else {
			val = "[" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
				`"x"`, `"xy"`, `1`, `-2`, `null`, `true`,
				`{"prefix":"x"}`, `{"suffix":"y"}`, `{"anything-but":"x"}`, `{"anything-but":[1]}`, `{"anything-but":{"prefix":"x"}}`,
				`{"exists":true}`, `{"exists":false}`, `{"exists":false}`, `{"numeric":["<",1]}`, `{"numeric":["!=",1]}`,
			}), 1, 2).Draw(t, "alts"), ",") + "]"
		}
		parts = append(parts, fmt.Sprintf("%q:%s", k, val))
	}
	if or && rapid.IntRange(0, 3).Draw(t, "or") == 0 {
		parts = append(parts, `"$or":[`+genPattern(t, depth-1, depth > 0)+","+genPattern(t, depth-1, false)+"]")
	}
	return strings.ReplaceAll("{"+strings.Join(parts, ",")+"}", `\\u`, `\u`)
}

// TestReference compares the walk with the reference on random patterns and
// documents; rapid prints the seed of a failure.
func TestReference(t *testing.T) {
	t.Parallel()
	var s Scratch
	matched := 0
	rapid.Check(t, func(t *rapid.T) {
		p := genPattern(t, 2, true)
		d, err := CompileJSON([]byte(p))
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		tree, err := parse([]byte(p))
		if err != nil {
			t.Fatal(err)
		}
		bs, err := compile(tree, false)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			doc := fmt.Sprintf(`{"a":%s,"b":%s,"c":%s}`, genDoc(t, 4), genDoc(t, 3), genDoc(t, 1))
			got, want := d.MatchJSON([]byte(doc), &s), reference(bs, doc)
			if got != want {
				t.Fatalf("pattern %s\ndocument %s\ngot %v, want %v", p, doc, got, want)
			}
			if got {
				matched++
			}
		}
	})
	if matched == 0 {
		t.Error("nothing ever matched")
	}
}

// TestIndex compares many patterns at once with each alone.
func TestIndex(t *testing.T) {
	t.Parallel()
	var s, one Scratch
	rapid.Check(t, func(t *rapid.T) {
		var ps []*Pattern
		for range rapid.IntRange(0, 12).Draw(t, "patterns") {
			text := `{"data":` + genPattern(t, 2, true) + `}`
			switch rapid.IntRange(0, 5).Draw(t, "shape") {
			case 0:
				text = `{"type":[{"prefix":"order."}],"data":` + genPattern(t, 1, true) + `}`
			case 1:
				text = `{"type":["order.paid"],"data":` + genPattern(t, 1, true) + `}`
			case 2:
				text = `{"tenant":[{"exists":false},"acme"]}`
			case 3:
				text = `{"$or":[{"type":["x"]},{"data":` + genPattern(t, 1, false) + `}]}`
			}
			p, err := Compile([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			ps = append(ps, p)
		}
		x := NewIndex(ps)
		for range 10 {
			e := testEvent(genDoc(t, 4))
			if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
				e.Data = e.Data[:len(e.Data)/2]
			}
			var want []int32
			for i, p := range ps {
				if p.Match(&e, &one) {
					want = append(want, int32(i))
				}
			}
			if got := x.Match(&e, &s); !slices.Equal(got, want) {
				t.Fatalf("data %s: got %v, want %v", e.Data, got, want)
			}
		}
	})
}

func TestDecimal(t *testing.T) {
	t.Parallel()
	num := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := num.Draw(t, "a"), num.Draw(t, "b")
		if rapid.Bool().Draw(t, "near") {
			b = a + "0"
			if strings.ContainsAny(a, "eE") || !strings.Contains(a, ".") {
				b = a
			}
		}
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if got, want := parseDecimal(a).compare(parseDecimal(b)), x.Cmp(y); got != want {
			t.Fatalf("%s and %s: got %d, want %d", a, b, got, want)
		}
	})
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"1e999999999999999999999", "1e5", 1},
		{"-1e999999999999999999999", "1e5", -1},
		{"1e-999999999999999999999", "0", 1},
		{"0", "-0.0e7", 0},
		{"9007199254740993", "9007199254740992", 1},
		{"100", "1e2", 0},
		{"0.001", "1E-3", 0},
	} {
		if got := parseDecimal(tc.a).compare(parseDecimal(tc.b)); got != tc.want {
			t.Errorf("%s and %s: got %d", tc.a, tc.b, got)
		}
	}
}

// FuzzWalk: the walk accepts exactly what encoding/json does and finds the same
// text, and no event makes a pattern panic.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{
		`{"a":"x\ud83d\ude00\ud800y"}`, `[1,{"a":[-0.5e-7,tru]}]`, `{"a":"` + strings.Repeat("b", 20) + `\"","b":[[]]}`,
		strings.Repeat("[", 10001) + strings.Repeat("]", 10001), strings.Repeat("[", 10000) + strings.Repeat("]", 10000), "{\"a\":\"\x01\"}", ` {"a" : null } `, `{"a":1,}`, `01`, `"a\q"`,
	} {
		f.Add([]byte(s))
	}
	if files, err := filepath.Glob("testdata/*.jsonl"); err == nil {
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			for i, line := range strings.Split(string(b), "\n") {
				if i%20 == 0 {
					f.Add([]byte(line))
				}
			}
		}
	}
	p := mustCompile(f, `{"data":{"a":["x",{"anything-but":[5]},{"exists":false}],"b":{"c":[{"numeric":["<",3]}]}}}`)
	at := mustCompile(f, `{"data":{"a":[{"exists":true}]}}`)
	f.Fuzz(func(t *testing.T, doc []byte) {
		var s Scratch
		s.begin(8)
		if got, want := s.walk(doc, at.index.root), json.Valid(doc); got != want {
			t.Fatalf("%q: walk %v, encoding/json %v", doc, got, want)
		}
		e := event.Event{ID: "1", Source: "s", Type: "t", Data: doc}
		p.Match(&e, &s)
		p.Explain(&e)
	})
}

// FuzzString: text is decoded as encoding/json decodes it.
func FuzzString(f *testing.F) {
	for _, s := range []string{`x`, `\u00e9\ud83d\ude00`, `\ud800\u0041`, `\ud800\ud800\udc00`, `\"\\\/\b\f\n\r\t`, `12345678\n12345678`} {
		f.Add(s)
	}
	at := mustCompile(f, `{"data":{"a":[{"exists":true}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		doc := []byte(`{"a":"` + text + `"}`)
		var m map[string]any
		if !utf8.Valid(doc) || json.Unmarshal(doc, &m) != nil || len(m) != 1 {
			return
		}
		want, ok := m["a"].(string)
		if !ok || bytes.Contains(doc[6:], []byte(`"a"`)) {
			return
		}
		var s Scratch
		s.begin(8)
		if !s.walk(doc, at.index.root) || len(s.tape) != 2 || s.scalarAt(&s.tape[1]).s != want {
			t.Fatalf("%q: got %+v, want %q", doc, s.tape, want)
		}
	})
}
