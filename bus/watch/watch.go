// Package watch wakes who waits for a queue to grow.
package watch

import (
	"slices"
	"sync"

	"millrace/bus/index"
)

// Queues knows who waits for which queue. A queue that nobody waits for costs
// nothing. The zero value is ready.
type Queues struct {
	mu     sync.Mutex
	queues map[index.QueueID]map[*Waiter]struct{}
	closed bool
}

// Waiter waits for any of its queues.
type Waiter struct {
	C      chan struct{} // holds one token once something happened
	queues []index.QueueID
}

// Register begins to watch; Forget must follow. C holds a token once one of the
// queues has grown.
func (w *Queues) Register(queues []index.QueueID) *Waiter {
	wt := &Waiter{C: make(chan struct{}, 1), queues: slices.Clone(queues)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queues == nil {
		w.queues = map[index.QueueID]map[*Waiter]struct{}{}
	}
	for _, q := range wt.queues {
		if w.queues[q] == nil {
			w.queues[q] = map[*Waiter]struct{}{}
		}
		w.queues[q][wt] = struct{}{}
	}
	if w.closed {
		wt.wake()
	}
	return wt
}

// Forget ends a watch.
func (w *Queues) Forget(wt *Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range wt.queues {
		delete(w.queues[q], wt)
		if len(w.queues[q]) == 0 {
			delete(w.queues, q)
		}
	}
}

// Advance wakes who waits for q.
func (w *Queues) Advance(q index.QueueID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for wt := range w.queues[q] {
		wt.wake()
	}
}

// WakeAll wakes everybody: a topic came or went.
func (w *Queues) WakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, set := range w.queues {
		for wt := range set {
			wt.wake()
		}
	}
}

// Close wakes everybody, now and whoever comes later.
func (w *Queues) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.WakeAll()
}

func (wt *Waiter) wake() {
	select {
	case wt.C <- struct{}{}:
	default:
	}
}
