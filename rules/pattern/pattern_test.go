package pattern

import (
	"errors"
	"testing"
	"time"

	"millrace/bus/event"
)

// testEvent is an event with every attribute and the data given.
func testEvent(data string) event.Event {
	return event.Event{
		ID: "1", Source: "/shops/7", Type: "order.created", Subject: "orders/9",
		Time:        time.Date(2026, 11, 30, 20, 44, 7, 123e6, time.UTC),
		ContentType: "application/json", Schema: "https://example.com/order/3", Key: "c-1",
		Ext: []event.Attr{
			{Name: "tenant", Value: "acme"},
			{Name: "level", Value: "5", Kind: event.Int},
			{Name: "dry", Value: "true", Kind: event.Bool},
			{Name: "wet", Value: "false", Kind: event.Bool},
		},
		Data: []byte(data),
	}
}

func TestMatchEvent(t *testing.T) {
	t.Parallel()
	const data = `{"amount":120.50,"currency":"EUR","note":"a \"b\" \u00e9\ud83d\ude00","items":[{"sku":"A","qty":1},{"sku":"B","qty":7}],"tags":["x",3,null],"nil":null,"e":[],"o":{"k":{}},"1":{"a.b":true}}`
	for _, tc := range []struct {
		pattern string
		want    bool
	}{
		{`{}`, true},
		{`{"type":["order.created"]}`, true},
		{`{"type":["x","order.created"]}`, true},
		{`{"type":["order.paid"]}`, false},
		{`{"type":[{"prefix":"order."}],"source":[{"suffix":"/7"}]}`, true},
		{`{"type":[{"prefix":"order."}],"source":[{"suffix":"/8"}]}`, false},
		{`{"specversion":["1.0"],"id":["1"],"subject":["orders/9"],"dataschema":[{"prefix":"https:"}],"partitionkey":["c-1"],"datacontenttype":["application/json"]}`, true},
		{`{"time":[{"prefix":"2026-11-30T20:"}]}`, true},
		{`{"time":["2026-11-30T20:44:07.123Z"]}`, true},
		{`{"tenant":["acme"]}`, true},
		{`{"level":[5]}`, true},
		{`{"level":["5"]}`, false},
		{`{"level":[{"numeric":[">",4]}]}`, true},
		{`{"dry":[true],"wet":[false]}`, true},
		{`{"dry":["true"]}`, false},
		{`{"nobody":[{"exists":false}]}`, true},
		{`{"nobody":[{"anything-but":"x"}]}`, false},
		{`{"tenant":[{"exists":false}]}`, false},
		{`{"tenant":[{"exists":false},"acme"]}`, true},
		{`{"data":{"amount":[120.5]}}`, true},
		{`{"data":{"amount":[1.205e2]}}`, true},
		{`{"data":{"amount":["120.50"]}}`, false},
		{`{"data":{"amount":[{"numeric":[">",100]}],"currency":["EUR"]}}`, true},
		{`{"data":{"amount":[{"numeric":["!=",120.500]}]}}`, false},
		{`{"data":{"amount":[{"numeric":["!=",120.501]}]}}`, true},
		{`{"data":{"currency":[{"numeric":["!=",1]}]}}`, false},
		{`{"data":{"note":["a \"b\" é😀"]}}`, true},
		{`{"data":{"note":[{"suffix":"é😀"}]}}`, true},
		{`{"data":{"note":[{"anything-but":{"prefix":["a \"","x"]}}]}}`, false},
		{`{"data":{"items":{"sku":["A"],"qty":[7]}}}`, false},
		{`{"data":{"items":{"sku":["B"],"qty":[7]}}}`, true},
		{`{"data":{"items":{"sku":["A"]},"$or":[{"items":{"qty":[7]}},{"z":[1]}]}}`, false},
		{`{"data":{"items":{"sku":["B"]},"$or":[{"items":{"qty":[7]}},{"z":[1]}]}}`, true},
		{`{"data":{"tags":[null]}}`, true},
		{`{"data":{"tags":[{"anything-but":["x"]}]}}`, true},
		{`{"data":{"nil":[{"exists":true}],"e":[{"exists":false}],"o":[{"exists":false}]}}`, true},
		{`{"data":{"o":{"k":{"z":[{"exists":false}]}}}}`, true},
		{`{"data":{"1":{"a.b":[true]}}}`, true},
		{`{"data":{"1":{"a":{"b":[true]}}}}`, false},
		{`{"data":[{"exists":true}]}`, false},
		{`{"$or":[{"type":["x"]},{"data":{"currency":["EUR"]}}]}`, true},
		{`{"$or":[{"type":["x"]},{"data":{"currency":["USD"]}}]}`, false},
		{`{"type":["order.created"],"$or":[{"type":["x"]},{"subject":["y"]}]}`, false},
	} {
		p, err := Compile([]byte(tc.pattern))
		if err != nil {
			t.Errorf("%s: %v", tc.pattern, err)
			continue
		}
		var s Scratch
		e := testEvent(data)
		if got := p.Match(&e, &s); got != tc.want {
			t.Errorf("%s: got %v", tc.pattern, got)
		}
	}
}

func TestDataKinds(t *testing.T) {
	t.Parallel()
	has := mustCompile(t, `{"data":{"a":[1]}}`)
	hasNot := mustCompile(t, `{"data":{"b":[{"exists":false}]}}`)
	scalar := mustCompile(t, `{"data":["x"]}`)
	typed := mustCompile(t, `{"type":["order.created"]}`)
	for _, tc := range []struct {
		name, contentType, data         string
		has, hasNot, scalar, attributes bool
	}{
		{"json", "application/json", `{"a":1}`, true, true, false, true},
		{"no type", "", `{"a":1}`, true, true, false, true},
		{"suffix", "application/vnd.x+json; charset=utf-8", `{"a":1}`, true, true, false, true},
		{"text", "text/plain", `{"a":1}`, false, true, false, true},
		{"empty", "application/json", ``, false, true, false, true},
		{"scalar", "application/json", ` "x" `, false, true, true, true},
		{"array", "application/json", `[{"a":1},"x"]`, true, true, true, true},
		{"cut short", "application/json", `{"a":1`, false, false, false, true},
		{"text after", "application/json", `{"a":1} x`, false, false, false, true},
		{"bad in what is skipped", "application/json", `{"a":1,"z":[tru]}`, false, false, false, true},
	} {
		e := testEvent(tc.data)
		e.ContentType = tc.contentType
		var s Scratch
		got := [4]bool{has.Match(&e, &s), hasNot.Match(&e, &s), scalar.Match(&e, &s), typed.Match(&e, &s)}
		if want := [4]bool{tc.has, tc.hasNot, tc.scalar, tc.attributes}; got != want {
			t.Errorf("%s: got %v, want %v", tc.name, got, want)
		}
	}
	tomb := testEvent("")
	tomb.Data = nil
	if has.Match(&tomb, nil) || !hasNot.Match(&tomb, nil) {
		t.Error("a tombstone has no data")
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ pattern, path, msg string }{
		{`{"data":{"amount":[{"numric":[">",1]}]}}`, "data.amount[0]", `unknown operator "numric": did you mean "numeric"?`},
		{`{"data":{"amount":[1,{"cidr":"10.0.0.0/8"}]}}`, "data.amount[1]", `operator "cidr" is not supported yet; supported are exact values, prefix, suffix, anything-but, exists, numeric and $or`},
		{`{"data":{"coppa":true}}`, "data.coppa", `is a bare value: wrap it: [true]`},
		{`{"type":"x"}`, "type", `is a bare value: wrap it: ["x"]`},
		{`{"type":["x"],"type":["y"]}`, "type", `is given twice, and one would hide the other: put the alternatives in one list, or use $or`},
		{`{"data":{"a":{"b":{}}}}`, "data.a.b", `is empty: give it a condition, such as {"field": [{"exists": true}]}, or remove it`},
		{`{"detail-type":["x"]}`, "detail-type", `is not an attribute (those are lower-case letters and digits): fields of the payload stand under "data"`},
		{`{"Type":["x"]}`, "Type", `is not an attribute: did you mean "type"? Fields of the payload stand under "data"`},
		{`{"detail":{"x":["y"]}}`, "detail", `is an attribute and has no fields: give a list of alternatives; fields of the payload stand under "data"`},
		{`{"data":{"a":[{"numeric":[">","5"]}]}}`, "data.a[0].numeric[1]", `is not a number (a number has no quotes)`},
		{`{"data":{"a":[{"numeric":["<",1,">",5]}]}}`, "data.a[0].numeric[0]", `"<" does not fit here; write comparisons such as ["=", 5], ["!=", 5], [">", 0] or [">=", 0, "<", 10]`},
		{`{"data":{"a":[{"exists":"no"}]}}`, "data.a[0].exists", `needs true or false`},
		{`{"data":{"$or":[{"a":[1]},{"prefix":["x"]}]}}`, "data.$or[1].prefix", `is the name of an operator, not of a field: a branch of $or holds fields, such as {"a": [{"prefix": …}]}`},
		{`{"data":{"a.b":[[1]]}}`, `data["a.b"][0]`, `is a list in a list: an alternative is a value or {operator: …}`},
		{`{"data":{"a":[`, "data.a", `is not JSON: it ends too early`},
		{`{} {}`, "", `has text after its end`},
		{``, "", `is not JSON: it ends too early`},
	} {
		_, err := Compile([]byte(tc.pattern))
		var pe *Error
		if !errors.As(err, &pe) {
			t.Errorf("%s: %v", tc.pattern, err)
			continue
		}
		if pe.Path != tc.path || pe.Msg != tc.msg {
			t.Errorf("%s:\ngot  %s: %s\nwant %s: %s", tc.pattern, pe.Path, pe.Msg, tc.path, tc.msg)
		}
	}
}

func mustCompile(tb testing.TB, pattern string) *Pattern {
	tb.Helper()
	p, err := Compile([]byte(pattern))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}
