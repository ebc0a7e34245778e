package exprs

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"millrace/bus/event"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var keys = rapid.SampledFrom([]string{"a", "b", "0", "a.b", `q\"`, `\u00e9`})

// genDoc makes JSON with repeated keys, escapes and awkward numbers.
func genDoc(t *rapid.T, depth int) string {
	n := rapid.IntRange(0, 9).Draw(t, "kind")
	switch {
	case depth > 0 && n < 5:
		parts := make([]string, rapid.IntRange(0, 4).Draw(t, "members"))
		for i := range parts {
			parts[i] = fmt.Sprintf(` "%s" : %s`, keys.Draw(t, "key"), genDoc(t, depth-1))
		}
		return "{" + strings.Join(parts, ",") + " }"
	case depth > 0 && n < 7:
		parts := make([]string, rapid.IntRange(0, 3).Draw(t, "elements"))
		for i := range parts {
			parts[i] = genDoc(t, depth-1)
		}
		return "[" + strings.Join(parts, " ,") + "]"
	}
	return rapid.SampledFrom([]string{
		`"x"`, `"\u0041\n\ud83d\ude00"`, `1`, `1.0`, `0.1`, `-0`, `1e3`, `123456789012345678901234567890`,
		`0.12345678901234567890`, `true`, `false`, `null`, `""`,
	}).Draw(t, "scalar")
}

// TestPaths: an expression of plain paths answers the same whether they are
// looked up in the raw data or data was decoded before.
func TestPaths(t *testing.T) {
	t.Parallel()
	var srcs []string
	var exprs []*Expr
	for _, a := range []string{`["a"]`, `.b`, `["0"]`, `[0]`, `[1]`, `["a.b"]`, `["q\""]`, `["é"]`} {
		srcs = append(srcs, "data"+a)
		for _, b := range []string{`.a`, `["0"]`, `[0]`, `["b"].a`, `[1][0]`} {
			srcs = append(srcs, "data"+a+b)
		}
	}
	srcs = append(srcs, "["+strings.Join(srcs, ", ")+"]", `[data.a, data.a.a, data.a[0], data.a.b]`)
	for _, src := range srcs {
		x, err := Compile(src, Options{})
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		exprs = append(exprs, x)
	}
	whole, err := Compile("data", Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	var c Cache // one for all, to see that Reset forgets
	rapid.Check(t, func(t *rapid.T) {
		e := &event.Event{ID: "1", Source: "s", Type: "t", Data: []byte(genDoc(t, 4))}
		if rapid.IntRange(0, 9).Draw(t, "broken") == 0 {
			e.Data = e.Data[:len(e.Data)-1]
		}
		var decodedFirst Cache
		decodedFirst.Reset(e)
		if _, err := whole.ValueIn(&decodedFirst); (err == nil) != (json.Valid(e.Data) || len(e.Data) == 0) {
			t.Fatalf("%s: %v", e.Data, err)
		}
		c.Reset(e)
		for i, x := range exprs {
			alone, err1 := x.Value(e)
			shared, err2 := x.ValueIn(&c)
			want, err3 := x.ValueIn(&decodedFirst)
			if (err1 == nil) != (err3 == nil) || (err2 == nil) != (err3 == nil) {
				t.Fatalf("%s on %s: errors %v, %v, %v", srcs[i], e.Data, err1, err2, err3)
			}
			if d := cmp.Diff(want, alone) + cmp.Diff(want, shared); d != "" {
				t.Fatalf("%s on %s: %s", srcs[i], e.Data, d)
			}
			if alone != nil {
				found++
			}
		}
	})
	if found == 0 {
		t.Error("no path ever led anywhere")
	}
}

// TestExactNumbers: a number that goes through data comes out as the same
// number, and compares as itself.
func TestExactNumbers(t *testing.T) {
	t.Parallel()
	x, err := Compile("data.n", Options{})
	if err != nil {
		t.Fatal(err)
	}
	same, err := Compile("data.n == data.m and data.n <= data.m and not (data.n < data.m)", Options{})
	if err != nil {
		t.Fatal(err)
	}
	num := rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?`)
	rapid.Check(t, func(t *rapid.T) {
		s := num.Draw(t, "number")
		e := &event.Event{Data: fmt.Appendf(nil, `{"n":%s,"m":%s}`, s, s)}
		v, err := x.Value(e)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		want, ok1 := new(big.Rat).SetString(s)
		got, ok2 := new(big.Rat).SetString(string(b))
		if !ok1 || !ok2 || want.Cmp(got) != 0 {
			t.Fatalf("%s came out as %s (%T)", s, b, v)
		}
		if ok, err := same.Bool(e); !ok || err != nil {
			t.Fatalf("%s does not equal itself: %v", s, err)
		}
	})
}

// FuzzCompile: no source makes the compiler or the machine panic.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`data.a > 1 and any(data.b, .c == #index)`, `let x = data; x?.a[1:2] ?? {"a": 1}`, `reduce(1..10, #acc + #, 0)`, `data.a.b()`,
		`groupBy(data.b, .a)[1]`, `data | keys() | len()`, `date(time).Add(duration("1h"))`, `$env`, `ext[data]`, `-data.a ** 2`, `fromJSON("[1]")[0]`,
	} {
		f.Add(s, `{"a":1,"b":[{"c":0}]}`)
	}
	f.Fuzz(func(t *testing.T, src, data string) {
		x, err := Compile(src, Options{MemoryBudget: 1000})
		if err != nil {
			return
		}
		v, err := x.Value(testEvent(data))
		if err == nil {
			_, _ = json.Marshal(v)
		}
	})
}

func benchData() string {
	return `{"orderId":"O-00000007","amount":1007.25,"currency":"EUR","region":"eu-west-1",` +
		`"customer":{"id":"C000007","tier":"gold","email":"user7@example.com","vip":false,"since":"2021-04-02"},` +
		`"items":[{"sku":"SKU-00001","qty":1,"price":10.25,"gift":true},{"sku":"SKU-00007","qty":3,"price":99.99,"gift":false},{"sku":"SKU-00777","qty":2,"price":1.5,"gift":true}],` +
		`"ip":"10.1.2.3","note":"leave at the door, call on arrival please; the second bell is broken, so knock twice and wait. If nobody answers hand it to the neighbour on floor 2",` +
		`"address":{"city":"Berlin","zip":"10115","country":"DE"},"payment":{"method":"card","card":{"brand":"visa","last4":"4242"},"risk":0.0125},` +
		`"shipping":{"carrier":"DHL","service":"express","tracking":"JD0146000000007","eta":"2026-12-03T10:00:00Z"},"tags":["web","repeat","newsletter"],"comment":"thanks for the quick delivery last time, the parcel came a day early"}`
}

func BenchmarkBool(b *testing.B) {
	for _, bc := range []struct{ name, src string }{
		{"attributes", `type == "order.created" and subject startsWith "orders/"`},
		{"one path", `data.amount > 100`},
		{"three paths", `data.amount > 100 and data.currency == "EUR" and data.customer.tier in ["gold", "platinum"]`},
		{"list", `any(data.items, .qty > 2)`},
		{"whole data", `data.amount > 100 and len(data) > 3`},
	} {
		b.Run(bc.name, func(b *testing.B) {
			x, err := Compile(bc.src, Options{})
			if err != nil {
				b.Fatal(err)
			}
			e := testEvent(benchData())
			var c Cache
			b.ReportAllocs()
			for b.Loop() {
				c.Reset(e)
				if ok, err := x.BoolIn(&c); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
}
