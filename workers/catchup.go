package workers

import (
	"context"
	"math"

	"millrace/bus"
	"millrace/workers/loop"
)

// catchUp routes one bounded batch for the rules that lag, from where the last of
// them stands, and never past the router.
func (r *router) catchUp(ctx context.Context) error {
	from := int64(math.MaxInt64)
	for i := range r.rules {
		if f := &r.rules[i]; f.lagging && !f.rule.held {
			from = min(from, f.next)
		}
	}
	if from >= r.next {
		r.begin()
		return r.caughtUp(ctx, r.next)
	}
	cursor := []bus.Cursor{{Topic: r.def.topic, ID: r.topic.ID, Queue: r.queue, Next: from}}
	recs, err := r.client.Read(ctx, cursor, bus.Limit{Records: int(min(lagBatch, r.next-from)), Bytes: loop.ReadBytes})
	if err != nil {
		return loop.ReadError(ctx, err)
	}
	for len(recs) > 0 && recs[len(recs)-1].Offset >= r.next { // gaps brought in what the router has not passed
		recs = recs[:len(recs)-1]
	}
	if len(recs) == 0 { // all of it is gone: nothing to catch up with
		r.begin()
		return r.caughtUp(ctx, r.next)
	}
	return r.route(ctx, recs, true)
}

// caughtUp saves how far the lagging rules are; those that stand where the router
// stands follow it from now on, in the same batch.
func (r *router) caughtUp(ctx context.Context, next int64) error {
	for i := range r.rules {
		f := &r.rules[i]
		if !f.lagging || f.rule.held || f.next > next {
			continue
		}
		follows := ""
		if next >= r.next {
			follows = RouterGroup(r.def.topic)
		}
		r.save(f, next, follows)
	}
	if err := r.commit(ctx); err != nil {
		return err
	}
	for i := range r.rules {
		f := &r.rules[i]
		if f.lagging && !f.rule.held && f.next <= next {
			f.next = next
			f.lagging = next < r.next
		}
	}
	return nil
}
