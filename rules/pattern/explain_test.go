package pattern

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	const data = `{"order":{"amount":120.5},"Currency":"EUR","n":"5","tag":["Gold ","x"],"items":[{"sku":"A","qty":1},{"sku":"B","qty":7}],"customer":{"name":"x"},"e":[]}`
	for _, tc := range []struct {
		pattern string
		want    []string // path op ok found | note
	}{
		{`{"type":["order.created"],"source":[{"prefix":"/Shops"}]}`, []string{
			`type exact true ["order.created"] | `,
			`source prefix false ["/shops/7"] | differs only in case`,
		}},
		{`{"tenat":["acme"]}`, []string{`tenat exact false [] | the event has no attribute tenat, but tenant`}},
		{`{"n":["5"]}`, []string{`n exact false [] | the event has no attribute n, but a field data.n`}},
		{`{"data":{"amount":[{"numeric":[">",100]}]}}`, []string{
			`data.amount numeric false [] | data has no field amount; there is data.order.amount`,
		}},
		{`{"data":{"order":{"amount":["120.5"]}}}`, []string{
			`data.order.amount exact false [120.5] | wanted the text "120.5", found the number 120.5`,
		}},
		{`{"data":{"n":[5],"$or":[{"n":["5"]},{"z":[1]}]}}`, []string{
			`data.n exact false ["5"] | branches of $or that name this field replace this condition`,
			`data.$or $or true [] | `,
			`data.$or[0].n exact true ["5"] | `,
			`data.$or[1].z exact false [] | data has no field z`,
		}},
		{`{"data":{"tag":["x"],"$or":[{"n":[{"numeric":["<",9]}]},{"n":["5","6"]}]}}`, []string{
			`data.tag exact true ["Gold ","x"] | `,
			`data.$or $or true [] | `,
			`data.$or[0].n numeric false ["5"] | wanted a number, found the text "5"`,
			`data.$or[1].n any of true ["5"] | `,
		}},
		{`{"data":{"n":[5]}}`, []string{`data.n exact false ["5"] | wanted the number 5, found the text "5"`}},
		{`{"data":{"currency":["EUR"]}}`, []string{`data.currency exact false [] | data has no field currency, but data.Currency`}},
		{`{"data":{"tag":["Gold"]}}`, []string{`data.tag exact false ["Gold ","x"] | differs only in spaces around it`}},
		{`{"data":{"tag":["Gol"]}}`, []string{`data.tag exact false ["Gold ","x"] | only begins with it: {"prefix": "Gol"} would match`}},
		{`{"data":{"customer":["x"]}}`, []string{`data.customer exact false [] | data.customer is an object: conditions apply to its fields`}},
		{`{"data":{"e":[{"exists":true}]}}`, []string{`data.e exists false [] | data.e is empty`}},
		{`{"data":{"n":[{"exists":false}],"z":[{"exists":false}]}}`, []string{
			`data.n exists false ["5"] | the field is there`, `data.z exists true [] | `,
		}},
		{`{"data":{"items":{"sku":["A"],"qty":[7]}}}`, []string{
			`data.items.sku exact true ["A","B"] | `,
			`data.items.qty exact true [1,7] | `,
			`data.items same element false [] | each condition holds somewhere in this list, but not all in the same element`,
		}},
		{`{}`, nil},
	} {
		p := mustCompile(t, tc.pattern)
		e := testEvent(data)
		var got []string
		failed := false
		for _, c := range p.Explain(&e) {
			found, err := json.Marshal(append([]json.RawMessage{}, c.Found...))
			if err != nil || !json.Valid(c.Wanted) {
				t.Fatalf("%s: %v %q", tc.pattern, err, c.Wanted)
			}
			got = append(got, fmt.Sprintf("%s %s %v %s | %s", c.Path, c.Op, c.OK, found, c.Note))
			failed = failed || !c.OK && !strings.Contains(c.Path, "$or[") && !strings.HasPrefix(c.Note, "branches of $or")
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s:\n%s", tc.pattern, diff)
		}
		if failed == p.Match(&e, nil) {
			t.Errorf("%s: the conditions and Match disagree", tc.pattern)
		}
	}
	for contentType, want := range map[string]string{
		"text/plain":       "data is not JSON but text/plain",
		"application/json": notValid,
	} {
		e := testEvent(`{"a":`)
		e.ContentType = contentType
		if c := mustCompile(t, `{"data":{"a":[1]}}`).Explain(&e); len(c) != 1 || c[0].Note != want {
			t.Errorf("%s: %+v", contentType, c)
		}
	}
}
