package bus

import (
	"context"
	"slices"
	"sync"
	"time"

	"millrace/bus/index"
)

// watchers wakes who waits for a queue to grow. A queue that nobody waits for
// costs nothing.
type watchers struct {
	mu     sync.Mutex
	queues map[index.QueueID]map[*waiter]struct{}
	closed bool
}

// waiter waits for any of its queues.
type waiter struct {
	c      chan struct{} // holds one token once something happened
	queues []index.QueueID
}

func (w *watchers) init() { w.queues = map[index.QueueID]map[*waiter]struct{}{} }

// register begins to watch; forget must follow.
func (w *watchers) register(queues []index.QueueID) *waiter {
	wt := &waiter{c: make(chan struct{}, 1), queues: slices.Clone(queues)}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range wt.queues {
		if w.queues[q] == nil {
			w.queues[q] = map[*waiter]struct{}{}
		}
		w.queues[q][wt] = struct{}{}
	}
	if w.closed {
		wt.wake()
	}
	return wt
}

func (w *watchers) forget(wt *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range wt.queues {
		delete(w.queues[q], wt)
		if len(w.queues[q]) == 0 {
			delete(w.queues, q)
		}
	}
}

// advance wakes who waits for q.
func (w *watchers) advance(q index.QueueID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wt := range w.queues[q] {
		wt.wake()
	}
}

// topics wakes everybody: a topic came or went.
func (w *watchers) topics() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, set := range w.queues {
		for wt := range set {
			wt.wake()
		}
	}
}

func (w *watchers) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.topics()
}

func (wt *waiter) wake() {
	select {
	case wt.c <- struct{}{}:
	default:
	}
}

// wait returns true when woken, false at the deadline; an error when ctx ends or
// the bus stops.
func (b *Bus) wait(ctx context.Context, wt *waiter, deadline <-chan time.Time) (bool, error) {
	select {
	case <-wt.c:
		return true, nil
	case <-deadline:
		return false, nil
	case <-b.stopping:
		return false, ErrClosed
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
