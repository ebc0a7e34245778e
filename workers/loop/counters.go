package loop

import (
	"sync/atomic"
	"time"
)

// Drop is why an event went no further on purpose. Invariant 6.
type Drop int

// The reasons.
const (
	DropUnmatched Drop = iota // no rule wanted it
	DropWhen                  // the connector's when said no
	DropWhere                 // the connector's where said no
	DropStep                  // a transform left nothing of it
	dropReasons
)

func (d Drop) String() string {
	switch d {
	case DropUnmatched:
		return "unmatched"
	case DropWhen:
		return "when"
	case DropWhere:
		return "where"
	case DropStep:
		return "transform"
	case dropReasons:
	}
	return "unknown"
}

// Counters of one task, since it started.
type Counters struct {
	Events  atomic.Int64 // produced, routed or delivered
	Dead    atomic.Int64
	Misses  atomic.Int64
	Retries atomic.Int64
	Batches atomic.Int64
	Busy    atomic.Int64 // nanoseconds spent on batches
	drops   [dropReasons]atomic.Int64
}

// Drop counts n events dropped for a reason.
func (c *Counters) Drop(why Drop, n int) {
	if n > 0 {
		c.drops[why].Add(int64(n))
	}
}

// Dropped lists the dropped events by reason.
func (c *Counters) Dropped() map[string]int64 {
	m := map[string]int64{}
	for i := range c.drops {
		if n := c.drops[i].Load(); n > 0 {
			m[Drop(i).String()] = n
		}
	}
	return m
}

// AllDropped is how many events were dropped in all.
func (c *Counters) AllDropped() (n int64) {
	for i := range c.drops {
		n += c.drops[i].Load()
	}
	return n
}

// Sum changes with every counter that the status shows.
func (c *Counters) Sum() int64 {
	return c.Events.Load() + c.Dead.Load() + c.Misses.Load() + c.AllDropped()
}

// Batch notes one batch of work that began at start.
func (c *Counters) Batch(events int, start time.Time) {
	c.Events.Add(int64(events))
	c.Batches.Add(1)
	c.Busy.Add(int64(time.Since(start)))
}
