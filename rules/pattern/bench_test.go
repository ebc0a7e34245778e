package pattern

import (
	"fmt"
	"strconv"
	"testing"

	"millrace/bus/event"
)

// benchEvent has about 1 KB of JSON.
func benchEvent(i int) event.Event {
	e := testEvent(fmt.Sprintf(`{"orderId":"O-%08d","amount":%d.25,"currency":"EUR","region":"eu-west-1",`+
		`"customer":{"id":"C%06d","tier":"gold","email":"user%d@example.com","vip":false,"since":"2021-04-02"},`+
		`"items":[{"sku":"SKU-00001","qty":1,"price":10.25,"gift":true},{"sku":"SKU-0%04d","qty":3,"price":99.99,"gift":false},{"sku":"SKU-00777","qty":2,"price":1.5,"gift":true}],`+
		`"ip":"10.1.2.3","note":"leave at the door, call on arrival please; the second bell is broken, so knock twice and wait. If nobody answers hand it to the neighbour on floor 2",`+
		`"address":{"city":"Berlin","zip":"10115","country":"DE"},"payment":{"method":"card","card":{"brand":"visa","last4":"4242"},"risk":0.0125},`+
		`"shipping":{"carrier":"DHL","service":"express","tracking":"JD0146000%06d","eta":"2026-12-03T10:00:00Z"},"tags":["web","repeat","newsletter"],"comment":"thanks for the quick delivery last time, the parcel came a day early"}`, i, i%1000, i%10000, i, i%10000, i))
	e.Source = fmt.Sprintf("/shops/%03d/checkout", i%500)
	return e
}

func benchPatterns(n int) []string {
	out := make([]string, n)
	for i := range out {
		switch i % 5 {
		case 0:
			out[i] = fmt.Sprintf(`{"type":["order.created"],"source":["/shops/%03d/checkout"]}`, i)
		case 1:
			out[i] = fmt.Sprintf(`{"type":["order.created"],"data":{"customer":{"id":["C%06d"]}}}`, i)
		case 2:
			out[i] = fmt.Sprintf(`{"type":[{"prefix":"order."}],"data":{"amount":[{"numeric":[">",%d]}],"currency":["EUR"]}}`, i*10)
		case 3:
			out[i] = fmt.Sprintf(`{"data":{"region":["eu-west-1"],"items":{"sku":["SKU-0%04d"],"qty":[3]}}}`, i)
		default:
			out[i] = fmt.Sprintf(`{"source":[{"prefix":"/shops/%03d"}],"data":{"customer":{"tier":["gold"]},"coupon":[{"exists":false}]}}`, i)
		}
	}
	return out
}

func BenchmarkMatch(b *testing.B) {
	for name, text := range map[string]string{
		"attributes": `{"type":["order.created"],"source":[{"prefix":"/shops/"}]}`,
		"data":       `{"type":["order.created"],"data":{"amount":[{"numeric":[">",100]}],"currency":["EUR"]}}`,
		"arrays":     `{"data":{"items":{"sku":["SKU-00777"],"qty":[2]}}}`,
		"missed":     `{"type":["order.paid"],"data":{"amount":[{"numeric":[">",100]}]}}`,
	} {
		b.Run(name, func(b *testing.B) {
			p := mustCompile(b, text)
			e := benchEvent(7)
			b.SetBytes(int64(len(e.Data)))
			b.ReportAllocs()
			var s Scratch
			for b.Loop() {
				p.Match(&e, &s)
			}
		})
	}
}

func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var ps []*Pattern
			for _, text := range benchPatterns(n) {
				ps = append(ps, mustCompile(b, text))
			}
			x := NewIndex(ps)
			events := make([]event.Event, 64)
			for i := range events {
				events[i] = benchEvent(i * 7)
			}
			b.ReportAllocs()
			var s Scratch
			for i := 0; b.Loop(); i++ {
				x.Match(&events[i%64], &s)
			}
		})
	}
}

func TestNoAllocations(t *testing.T) {
	var ps []*Pattern
	for _, text := range append(benchPatterns(50), `{"time":[{"prefix":"2026"}],"data":{"note":[{"suffix":"floor 2"}],"comment":[{"anything-but":"x"}]}}`) {
		ps = append(ps, mustCompile(t, text))
	}
	x := NewIndex(ps)
	e := benchEvent(3)
	e.ContentType = "application/cloudevents+json; charset=utf-8"
	e.Data = append([]byte(`{"esc\u0061ped":"a\nb",`), e.Data[1:]...)
	var s Scratch
	if n := testing.AllocsPerRun(100, func() { x.Match(&e, &s) }); n != 0 {
		t.Errorf("%v allocations for each match", n)
	}
	if len(x.Match(&e, &s)) == 0 {
		t.Error("nothing matched")
	}
}
