package workers

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// drop is why an event went no further on purpose. Invariant 6.
type drop int

const (
	dropUnmatched drop = iota // no rule wanted it
	dropWhen                  // the connector's when said no
	dropWhere                 // the connector's where said no
	dropStep                  // a transform left nothing of it
	dropReasons
)

var dropNames = [dropReasons]string{"unmatched", "when", "where", "transform"}

// counters of one task, since it started.
type counters struct {
	events  atomic.Int64 // produced, routed or delivered
	dead    atomic.Int64
	misses  atomic.Int64
	retries atomic.Int64
	batches atomic.Int64
	busy    atomic.Int64 // nanoseconds spent on batches
	drops   [dropReasons]atomic.Int64

	published atomic.Int64 // sum when last published
}

func (c *counters) drop(why drop, n int) {
	if n > 0 {
		c.drops[why].Add(int64(n))
	}
}

func (c *counters) dropped() (n int64) {
	for i := range c.drops {
		n += c.drops[i].Load()
	}
	return n
}

// sum changes with every counter that the status shows.
func (c *counters) sum() int64 {
	return c.events.Load() + c.dead.Load() + c.misses.Load() + c.dropped()
}

// batch notes one batch of work that began at start.
func (c *counters) batch(events int, start time.Time) {
	c.events.Add(int64(events))
	c.batches.Add(1)
	c.busy.Add(int64(time.Since(start)))
}

// TaskStats is what one task of this worker has done since it started.
type TaskStats struct {
	Kind    string // source, sink, rule or router
	Name    string // of the connector, rule or topic
	Task    int
	State   string
	Events  int64            // produced, routed or delivered
	Dropped map[string]int64 // reason → events
	Dead    int64            // dead-lettered
	Misses  int64            // expressions that failed at run time
	Retries int64            // tries beyond the first
	Batches int64
	Busy    time.Duration // spent on batches in all
}

// Stats returns the figures of every task that runs here, by kind, name and task.
func (r *Runtime) Stats() []TaskStats {
	var all []TaskStats
	for _, u := range r.runningUnits() {
		u.mu.Lock()
		for _, t := range u.tasks {
			all = append(all, t.stats())
		}
		u.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b TaskStats) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Task, b.Task))
	})
	return all
}

func (t *task) stats() TaskStats {
	c := &t.counters
	s := TaskStats{
		Kind: string(t.u.spec.Kind), Name: t.u.spec.Owner, Task: t.id,
		Events: c.events.Load(), Dropped: map[string]int64{}, Dead: c.dead.Load(), Misses: c.misses.Load(),
		Retries: c.retries.Load(), Batches: c.batches.Load(), Busy: time.Duration(c.busy.Load()),
	}
	for i := range c.drops {
		if n := c.drops[i].Load(); n > 0 {
			s.Dropped[dropNames[i]] = n
		}
	}
	t.mu.Lock()
	s.State = t.state
	t.mu.Unlock()
	return s
}
