package transforms

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"millrace/bus/event"
)

// oneKB is an order of about 1 KB.
func oneKB() event.Event {
	var b strings.Builder
	b.WriteString(`{"id":228930314431312345,"currency":"EUR","amount":149.90,"customer":{"id":"c-17","name":"Ada Lovelace","tier":"gold"}`)
	for i := range 12 {
		fmt.Fprintf(&b, `,"field_%d":"some text of usual length %d"`, i, i)
	}
	b.WriteString(`,"items":[`)
	for i := range 5 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"SKU-%d","count":%d,"price":19.99}`, i, i+1)
	}
	b.WriteString(`],"region":"eu-central-1"}`)
	return event.Event{ID: "1", Source: "/shop", Type: "order.created", ContentType: "application/json", Key: "c-17", Data: []byte(b.String())}
}

func BenchmarkSteps(b *testing.B) {
	for _, bm := range []struct{ name, steps string }{
		{"set/constant", `{"set": {"data.size": "'big'"}}`},
		{"set/place", `{"set": {"data.who": "data.customer.name"}}`},
		{"set/attribute", `{"set": {"data.t": "type"}}`},
		{"set/arithmetic", `{"set": {"data.vat": "data.amount * 0.19"}}`},
		{"setAttributes", `{"setAttributes": {"subject": "data.customer.id"}}`},
		{"rename", `{"rename": {"data.customer.id": "data.customer.key"}}`},
		{"remove", `{"remove": ["data.customer", "data.field_3"]}`},
		{"keep", `{"keep": ["data.id", "data.amount", "data.items[*].sku"]}`},
		{"cast", `{"cast": {"data.amount": "string"}}`},
		{"template", `{"template": {"id": "${data.id}", "who": "${data.customer.name} (${data.customer.tier})", "first": "${data.items[0].sku}", "region": "${data.region}"}}`},
		{"filter/where", `{"filter": {"where": "data.amount > 100"}}`},
		{"filter/when", `{"filter": {"when": {"data": {"currency": ["EUR"]}}}}`},
		{"split", `{"split": {"path": "data.items"}}`},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c, err := Compile(raws(bm.steps), Env{})
			if err != nil {
				b.Fatal(err)
			}
			in := make([]event.Event, 100)
			for i := range in {
				in[i] = oneKB()
			}
			b.SetBytes(int64(len(in[0].Data)))
			b.ReportAllocs()
			for n := 0; n < b.N; n += len(in) { // time and allocations are for one event
				results, err := c.Apply(context.Background(), in)
				if err != nil || len(results) == 0 || results[0].Err != nil {
					b.Fatal(results, err)
				}
			}
		})
	}
}
