package exprs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/bus/event"

	"github.com/google/go-cmp/cmp"
)

func testEvent(data string) *event.Event {
	return &event.Event{
		ID: "1", Source: "/shops/7", Type: "order.created", Subject: "orders/9",
		Time:        time.Date(2026, 11, 30, 20, 44, 7, 123e6, time.UTC),
		ContentType: "application/json", Schema: "https://example.com/order/3",
		Ext: []event.Attr{
			{Name: "tenant", Value: "acme"},
			{Name: "level", Value: "5", Kind: event.Int},
			{Name: "dry", Value: "true", Kind: event.Bool},
			{Name: "traceparent", Value: "00-1"},
		},
		Data: []byte(data),
	}
}

const orderData = `{"amount":120.50,"currency":"EUR","big":228930314431312345,"huge":12345678901234567890123,"fine":0.1234567890123456789,
"items":[{"sku":"A","qty":1},{"sku":"B","qty":7}],"tags":["x",3,null],"none":null,"vip":true,"n":6,"five":5.0,
"customer":{"id":"C1","tier":"gold","a.b":"dotted"},"text":"{\"k\":228930314431312345}","empty":{},"esc\u00e9":"a\nb"}`

func TestValue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		src  string
		want any
	}{
		{`type`, "order.created"},
		{`id + source`, "1/shops/7"},
		{`partitionkey`, nil},
		{`time`, "2026-11-30T20:44:07.123Z"},
		{`time > "2026-11"`, true},
		{`date(time).Year()`, 2026},
		{`now()`, now},
		{`ext.tenant`, "acme"},
		{`ext["level"] + 1`, 6},
		{`ext.nobody`, nil},
		{`ext`, map[string]any{"tenant": "acme", "level": int64(5), "dry": true, "traceparent": "00-1"}},
		{`traceparent`, "00-1"},
		{`tenant`, "acme"}, // by Options
		{`data.amount`, 120.5},
		{`data.amount > 100`, true},
		{`data.amount > 100 and data.currency == "EUR"`, true},
		{`data.big`, int64(228930314431312345)},
		{`data.big == 228930314431312345`, true},
		{`data.big == 228930314431312344`, false},
		{`data.huge`, json.Number("12345678901234567890123")},
		{`data.huge > 5`, true},
		{`data.huge > data.big`, true},
		{`data.huge == data.huge`, true},
		{`data.fine`, json.Number("0.1234567890123456789")},
		{`data.fine < 0.2`, true},
		{`data.fine == 0.12345678901234568`, false},
		{`data.fine * 2`, 0.24691357802469136},
		{`data.five`, int64(5)},
		{`data.n % 2 == 0`, true},
		{`data.missing`, nil},
		{`data.missing.deeper[3].x`, nil},
		{`data.missing > 1`, false},
		{`data.missing < 1`, false},
		{`data.missing <= data.other`, false},
		{`data.missing == nil`, true},
		{`data.missing == 1`, false},
		{`data.missing != 1`, true},
		{`data.missing contains "x"`, false},
		{`data.missing in ["a"]`, false},
		{`data.missing in data.missing`, false},
		{`not data.missing`, true},
		{`!data.vip`, false},
		{`data.missing and data.vip`, false},
		{`data.missing or data.vip`, true},
		{`data.missing ? 1 : 2`, 2},
		{`data.missing ?? "d"`, "d"},
		{`data?.customer?.tier`, "gold"},
		{`data.customer["a.b"]`, "dotted"},
		{`data["customer"].id`, "C1"},
		{`data.items[1].sku`, "B"},
		{`data.items[-1].sku`, "B"},
		{`data.items[9].sku`, nil},
		{`data.items["1"]`, nil},
		{`data.customer[0]`, nil},
		{`data.amount.x`, nil},
		{`any(data.items, .qty > 3)`, true},
		{`any(data.items, .missing > 3)`, false},
		{`any(data.missing, .qty > 3)`, false},
		{`all(data.missing, .qty > 3)`, true},
		{`count(data.items, .qty)`, "a condition is the number 1, not true or false"},
		{`len(data.missing)`, 0},
		{`filter(data.items, .sku in ["B", "C"])[0].qty`, int64(7)},
		{`map(data.items, .qty * 2)`, []any{2, 14}},
		{`sum(data.items, .qty)`, 8},
		{`data.n in [5, 6.0]`, true},
		{`data.n in 1..10`, true},
		{`data.currency in ["EUR", "USD"]`, true},
		{`data.currency in data.items`, false},
		{`"tier" in data.customer`, true},
		{`data.tags == ["x", 3, nil]`, true},
		{`data.tags`, []any{"x", int64(3), nil}},
		{`data.empty`, map[string]any{}},
		{`data.escé`, "a\nb"},
		{`let c = data.customer; c.tier + c.id`, "goldC1"},
		{`let data = {"x": 1}; data.x`, 1},
		{`let subject = 3; subject`, 3},
		{`fromJSON(data.text).k`, int64(228930314431312345)},
		{`float(data.huge) > 1e22`, true},
		{`int(data.huge)`, "is too large for int()"},
		{`int("12") + int(data.five)`, 17},
		{`{"a": data.big, "b": [data.n]}`, map[string]any{"a": int64(228930314431312345), "b": []any{int64(6)}}},
		{`data.none`, nil},
		{`upper(data.currency)`, "EUR"},
		{`data.currency matches "^E.R$"`, true},
		{`data.amount > "x"`, `the number 120.5 and the text "x" cannot be compared`},
		{`date(time) > date("2026-01-01")`, true},
		{`date(time) <= date("2026-01-01")`, false},
		{`data.items < 5`, `a list and the number 5 cannot be compared`},
		{`data.items < data.items`, `invalid operation`},
		{`data.currency > 5`, `cannot be compared`},
		{`data.currency + 5`, `the text "EUR" and the number 5 cannot be added`},
		{`replace("a-b-c", "-", "+", 1)`, "a+b-c"},
		{`"a,b" | split(",")`, []any{"a", "b"}},
		{`join(map(data.items, .sku), "+")`, "A+B"},
		{`join(data.tags)`, "the number 3 is not a text"},
		{`max(data.items[0].qty, 3)`, 3},
		{`uniq(map(data.items, 1))`, []any{1}},
		{`len(data.currency)`, 3},
		{`string(data.big) + toJSON(data.tags)`, "228930314431312345[\n  \"x\",\n  3,\n  null\n]"},
	} {
		x, err := Compile(tc.src, Options{Extensions: []string{"tenant"}, Now: func() time.Time { return now }})
		if err != nil {
			t.Errorf("%s: %v", tc.src, err)
			continue
		}
		got, err := x.Value(testEvent(orderData))
		if err != nil {
			want, _ := tc.want.(string)
			var xe *Error
			if !errors.As(err, &xe) || xe.Line != 1 || want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v", tc.src, err)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.src, diff)
		}
	}
}

func TestBool(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		src, err string
		want     bool
	}{
		{`data.vip`, "", true},
		{`data.missing`, "", false},
		{`data.n`, "the condition gives the number 6, not true or false", false},
		{`data.items[0].qty == 1`, "", true},
		{`sum(map(1..100000, # * 2)) > 0`, "memory budget exceeded", false},
	} {
		x, err := Compile(tc.src, Options{MemoryBudget: 1000})
		if err != nil {
			t.Errorf("%s: %v", tc.src, err)
			continue
		}
		got, err := x.Bool(testEvent(orderData))
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v %v", tc.src, got, err)
		}
	}
}

func TestDataKinds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		contentType, data string
		a                 any
		whole             any
		err               string
	}{
		{"application/json", `{"a":1}`, int64(1), map[string]any{"a": int64(1)}, ""},
		{"", `{"a":1}`, int64(1), map[string]any{"a": int64(1)}, ""},
		{"application/json", `[1]`, nil, []any{int64(1)}, ""},
		{"application/json", `"s"`, nil, "s", ""},
		{"application/json", `null`, nil, nil, ""},
		{"application/json", ``, nil, nil, ""},
		{"application/json", `{"a":1`, nil, nil, "data is not valid JSON"},
		{"application/json", strings.Repeat("[", 20000) + strings.Repeat("]", 20000), nil, nil, "data is not valid JSON"},
		{"text/plain", `line`, nil, "line", ""},
		{"application/octet-stream", `{"a":1}`, nil, nil, ""},
	} {
		for src, want := range map[string]any{"data.a": tc.a, "data": tc.whole} {
			e := testEvent(tc.data)
			e.ContentType = tc.contentType
			x, err := Compile(src, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := x.Value(e)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s %.20q: %s: %v", tc.contentType, tc.data, src, err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s %.20q: %s: %s", tc.contentType, tc.data, src, diff)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		src          string
		line, column int
		msg          string
	}{
		{`dta.amount > 1`, 1, 1, "there is no dta: did you mean data? An extension is written ext.dta"},
		{`data.amount > 1 and amount`, 1, 21, "there is no amount: fields of the payload are data.amount, an extension is ext.amount"},
		{"data.a\n  == $env", 2, 6, "$env is not available: use the names of attributes, data and ext"},
		{`data.a ==`, 1, 9, "unexpected token EOF"},
		{`lenn(data.a)`, 1, 1, "there is no function lenn: did you mean len?"},
		{`type(data)`, 1, 1, "there is no function type"},
		{`any(data.a, any(.b, any(.c, true)))`, 1, 29, "predicates nest more than 2 deep"},
		{``, 1, 1, "unexpected token EOF"},
		{`(data.a)(1)`, 1, 9, "unexpected token"},
	} {
		_, err := Compile(tc.src, Options{})
		var xe *Error
		if !errors.As(err, &xe) {
			t.Errorf("%s: %v", tc.src, err)
			continue
		}
		if xe.Line != tc.line || xe.Column != tc.column || !strings.HasPrefix(xe.Msg, tc.msg) {
			t.Errorf("%s: got %d:%d %s", tc.src, xe.Line, xe.Column, xe.Msg)
		}
	}
	if _, err := Compile(strings.Repeat("1+", 2000)+"1", Options{}); err == nil {
		t.Error("a huge expression compiled")
	}
}

// TestBounds: what would take for ever or all memory is an error.
func TestBounds(t *testing.T) {
	t.Parallel()
	doubling := func(first, step, last string) string {
		var b strings.Builder
		b.WriteString("let x0 = " + first + "; ")
		for i := range 40 {
			fmt.Fprintf(&b, "let x%d = %s; ", i+1, strings.ReplaceAll(step, "x", fmt.Sprintf("x%d", i)))
		}
		return b.String() + strings.ReplaceAll(last, "x", "x40")
	}
	long := `{"l":[` + strings.Repeat("1,", 2000) + `1],"s":"` + strings.Repeat("ab", 1<<16) + `"}`
	for _, src := range []string{
		doubling(`"abc"`, `x + x`, `len(x)`),
		doubling(`[1]`, `[x, x]`, `x`),
		doubling(`[1]`, `[x, x]`, `toJSON(x)`),
		doubling(`[1]`, `[x, x]`, `string(x)`),
		doubling(`[1]`, `[x, x]`, `flatten(x)`),
		doubling(`[1]`, `[x, x]`, `x == x`),
		doubling(`[1]`, `[x, x]`, `[x] == [x]`),
		doubling(`[1]`, `[x, x]`, `mean(x)`),
		doubling(`[1]`, `concat(x, x)`, `x`),
		doubling(`{"a": 1}`, `{"a": x, "b": x}`, `x`),
		`replace(data.s, "a", data.s)`,
		`join(map(data.l, data.s))`,
		`split(data.s, "")`,
		`any(data.l, any(data.l, # > 1))`,
		`uniq(data.l)`,
		`map(data.l, data.l)`,
		`repeat("x", 1000000000)`,
		`sum(1..1000000000)`,
	} {
		x, err := Compile(src, Options{})
		if err != nil {
			t.Errorf("%.60s: %v", src, err)
			continue
		}
		if v, err := x.Value(testEvent(long)); err == nil {
			t.Errorf("%.60s: gave %.40v", src, v)
		}
	}
}

func TestCompileWhere(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`"data.vip"`:           "",
		`{"expr":"data.vip"}`:  "",
		` {"expr":"data.vip"}`: "",
		`{"cesql":"x = 1"}`:    "cesql is not supported yet",
		`{"sql92":"x = 1"}`:    "sql92 is not supported yet",
		`{"expr":"a","x":1}`:   "the one key",
		`{}`:                   "the one key",
		`{"expr":5}`:           "is not a string",
		`5`:                    "is not a string",
	} {
		_, err := CompileWhere(json.RawMessage(raw), Options{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
