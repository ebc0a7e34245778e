package rpc

import (
	"context"
	"sync"
	"time"
)

const (
	maxOutcomes = 4096        // remembered at least this long back
	onceTimeout = time.Minute // for one request that changes something
)

// once does each request that changes something once, and answers a retry with
// the first outcome. It remembers the latest maxOutcomes.
type once struct {
	mu       sync.Mutex
	outcomes map[string]*outcome
	order    []string // ids, a ring of maxOutcomes
	next     int
}

type outcome struct {
	done chan struct{} // closed when the rest is set
	m    message
	err  error
}

// do runs f unless a request of that id has been run; "" runs always. f goes on
// when the caller's connection is lost, so that its outcome is known.
func (o *once) do(ctx context.Context, id string, f func(context.Context) (message, error)) (message, error) {
	if id == "" {
		return f(ctx)
	}
	o.mu.Lock()
	out := o.outcomes[id]
	if out != nil {
		o.mu.Unlock()
		select {
		case <-out.done:
			return out.m, out.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out = &outcome{done: make(chan struct{})}
	o.remember(id, out)
	o.mu.Unlock()

	run, cancel := context.WithTimeout(context.WithoutCancel(ctx), onceTimeout)
	defer cancel()
	out.m, out.err = f(run)
	close(out.done)
	return out.m, out.err
}

// remember forgets the oldest in turn. The caller holds mu.
func (o *once) remember(id string, out *outcome) {
	if o.outcomes == nil {
		o.outcomes = map[string]*outcome{}
	}
	if len(o.order) < maxOutcomes {
		o.order = append(o.order, id)
	} else {
		delete(o.outcomes, o.order[o.next])
		o.order[o.next] = id
		o.next = (o.next + 1) % maxOutcomes
	}
	o.outcomes[id] = out
}
