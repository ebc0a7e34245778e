package loop

import (
	"context"
	"iter"

	"millrace/bus"
	"millrace/bus/event"
)

// Page is how many records one Scan asks for.
const Page = 1000

// Scan yields the latest records of a compacted topic's keys that start with
// prefix, by key.
func Scan(ctx context.Context, client bus.Client, topic, prefix string) iter.Seq2[event.Record, error] {
	return func(yield func(event.Record, error) bool) {
		for after := ""; ; {
			recs, err := client.Scan(ctx, topic, prefix, after, Page)
			if err != nil {
				yield(event.Record{}, err)
				return
			}
			for i := range recs {
				if !yield(recs[i], nil) {
					return
				}
			}
			if len(recs) < Page {
				return
			}
			after = recs[len(recs)-1].Key
		}
	}
}
