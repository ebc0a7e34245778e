package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/bus/event"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func program(tb testing.TB, when, where string) *Program {
	tb.Helper()
	r := &Rule{Name: "r", From: []string{"a"}, When: json.RawMessage(when)}
	if where != "" {
		b, err := json.Marshal(where)
		if err != nil {
			tb.Fatal(err)
		}
		r.Where = b
	}
	p, err := Compile(r, Env{})
	if err != nil {
		tb.Fatalf("%s %s: %v", when, where, err)
	}
	return p
}

// order is an event of about 1 KB.
func order(i int) event.Event {
	return event.Event{
		ID: strconv.Itoa(i), Source: fmt.Sprintf("/shops/%03d/checkout", i%500), Type: []string{"order.created", "order.paid", "order.shipped"}[i%3],
		Subject: fmt.Sprintf("orders/%06d", i), Time: time.Unix(1796000000+int64(i), 0), ContentType: "application/json",
		Data: fmt.Appendf(nil, `{"orderId":"O-%08d","amount":%d.25,"currency":"%s","region":"eu-west-1",`+
			`"customer":{"id":"C%06d","tier":"gold","email":"user%d@example.com","vip":false,"since":"2021-04-02"},`+
			`"items":[{"sku":"SKU-00001","qty":1,"price":10.25,"gift":true},{"sku":"SKU-%05d","qty":3,"price":99.99,"gift":false},{"sku":"SKU-00777","qty":2,"price":1.5,"gift":true}],`+
			`"ip":"10.1.2.3","note":"leave at the door, call on arrival please; the second bell is broken, so knock twice and wait. If nobody answers hand it to the neighbour on floor 2",`+
			`"address":{"city":"Berlin","zip":"10115","country":"DE"},"payment":{"method":"card","card":{"brand":"visa","last4":"4242"},"risk":0.0125},`+
			`"shipping":{"carrier":"DHL","service":"express","tracking":"JD0146000%06d","eta":"2026-12-03T10:00:00Z"},"tags":["web","repeat"],"comment":"thanks for the quick delivery last time, the parcel came a day early"}`,
			i, i%500, []string{"EUR", "USD"}[i%2], i, i, i%100, i),
	}
}

func patterns(n int) []string {
	out := make([]string, n)
	for i := range out {
		switch i % 5 {
		case 0:
			out[i] = fmt.Sprintf(`{"type":["order.created"],"source":["/shops/%03d/checkout"]}`, i)
		case 1:
			out[i] = fmt.Sprintf(`{"type":["order.created"],"data":{"customer":{"id":["C%06d"]}}}`, i)
		case 2:
			out[i] = fmt.Sprintf(`{"type":[{"prefix":"order."}],"data":{"amount":[{"numeric":[">",%d]}],"currency":["EUR"]}}`, 10*i)
		case 3:
			out[i] = fmt.Sprintf(`{"data":{"region":["eu-west-1"],"items":{"sku":["SKU-%05d"],"qty":[3]}}}`, i)
		default:
			out[i] = fmt.Sprintf(`{"source":[{"prefix":"/shops/%03d"}],"data":{"customer":{"tier":["gold"]},"coupon":[{"exists":false}]}}`, i)
		}
	}
	return out
}

// TestSet: a set answers as each of its programs alone.
func TestSet(t *testing.T) {
	t.Parallel()
	whens := append(patterns(30), `{}`, `{"type":["order.paid"]}`, `{"data":{"n":[{"exists":false}]}}`, `{"data":{"items":{"sku":["SKU-00001"],"qty":[3]}}}`)
	wheres := []string{"", "", "data.amount > 100", `data.currency == "EUR" and any(data.items, .qty > 2)`, "data.currency > 5", "data.amount", "len(data) > 3", `subject endsWith "7"`}
	var all []*Program
	for _, w := range whens {
		for _, x := range wheres {
			all = append(all, program(t, w, x))
		}
	}
	var s Scratch
	matches, failures := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		ps := rapid.SliceOfN(rapid.SampledFrom(all), 0, 40).Draw(t, "programs")
		set := NewSet(ps)
		for range 5 {
			e := order(rapid.IntRange(0, 600).Draw(t, "event"))
			switch rapid.IntRange(0, 9).Draw(t, "fault") {
			case 0:
				e.Data = e.Data[:len(e.Data)-7]
			case 1:
				e.ContentType = "text/plain"
			case 2:
				e.Data = nil
			}
			var want []int32
			var failed []int32
			for i, p := range ps {
				ok, err := p.Match(&e)
				if ok {
					want = append(want, int32(i))
				}
				if err != nil {
					failed = append(failed, int32(i))
				}
			}
			got := set.Match(&e, &s)
			if !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			if len(s.Failures) != len(failed) {
				t.Fatalf("got failures %v, want of %v", s.Failures, failed)
			}
			for i, f := range s.Failures {
				if f.Program != failed[i] || f.Err == nil {
					t.Fatalf("got failures %v, want of %v", s.Failures, failed)
				}
			}
			matches, failures = matches+len(got), failures+len(failed)
		}
	})
	if matches == 0 || failures == 0 {
		t.Errorf("%d matches, %d failures: the test sees too little", matches, failures)
	}
}

func TestSetIsFixed(t *testing.T) {
	t.Parallel()
	ps := []*Program{program(t, `{}`, ""), program(t, `{"type":["x"]}`, "")}
	set := NewSet(ps)
	first := ps[0]
	ps[0] = ps[1]
	e := order(1)
	var s Scratch
	if got := set.Match(&e, &s); !slices.Equal(got, []int32{0}) || set.Program(0) != first || set.Len() != 2 {
		t.Errorf("got %v", got)
	}
}

func TestNoAllocations(t *testing.T) {
	var ps []*Program
	for _, w := range patterns(100) {
		ps = append(ps, program(t, w, ""))
	}
	set := NewSet(ps)
	e := order(42)
	var s Scratch
	if n := testing.AllocsPerRun(100, func() { set.Match(&e, &s) }); n != 0 {
		t.Errorf("%v allocations for each match", n)
	}
	if len(set.Match(&e, &s)) == 0 {
		t.Error("nothing matched")
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	e := order(2)
	for _, tc := range []struct {
		when, where string
		want        []string
	}{
		{`{"type":["order.Shipped"],"data":{"amount":["2.25"]}}`, `data.currency == "EUR"`, []string{
			`when.type exact false | differs only in case`,
			`when.data.amount exact false | wanted the text "2.25", found the number 2.25`,
			`where expr true | `,
		}},
		{`{}`, `data.currency > 5`, []string{`where expr false | line 1, column 15: the text "EUR" and the number 5 cannot be compared`}},
		{`{"data":{"tags":["web"]}}`, ``, []string{`when.data.tags exact true | `}},
	} {
		p := program(t, tc.when, tc.where)
		var got []string
		all := true
		for _, c := range Explain(p, &e) {
			got = append(got, fmt.Sprintf("%s %s %v | %s", c.Path, c.Op, c.OK, c.Note))
			all = all && c.OK
			if b, err := json.Marshal(c); err != nil || !strings.Contains(string(b), `"wanted":`) {
				t.Errorf("%s %v", b, err)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.when, diff)
		}
		if ok, _ := p.Match(&e); ok != all {
			t.Errorf("%s: Match says %v", tc.when, ok)
		}
	}
}

// TestExplainIsShort: a where that gives all of a large payload shows a part.
func TestExplainIsShort(t *testing.T) {
	t.Parallel()
	e := order(1)
	e.Data = []byte(`{"s":"` + strings.Repeat(`\"\\`, 100000) + `"}`)
	c := Explain(program(t, `{"data":{"s":["x"]}}`, "data.s"), &e)
	if b, err := json.Marshal(c); err != nil || len(b) > 10000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

func BenchmarkSet(b *testing.B) {
	for _, bc := range []struct {
		name  string
		n     int
		where string
	}{{"1", 1, ""}, {"100", 100, ""}, {"1000", 1000, ""}, {"100 with where", 100, `data.amount > 100 and data.currency == "EUR"`}} {
		b.Run(bc.name, func(b *testing.B) {
			var ps []*Program
			for _, w := range patterns(bc.n + 2)[2:] { // the first asks for data
				ps = append(ps, program(b, w, bc.where))
			}
			set := NewSet(ps)
			events := make([]event.Event, 64)
			for i := range events {
				events[i] = order(i * 7)
			}
			b.ReportAllocs()
			var s Scratch
			for i := 0; b.Loop(); i++ {
				set.Match(&events[i%64], &s)
			}
		})
	}
}
