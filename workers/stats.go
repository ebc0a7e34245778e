package workers

import (
	"cmp"
	"slices"
	"time"
)

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
		Events: c.Events.Load(), Dropped: c.Dropped(), Dead: c.Dead.Load(), Misses: c.Misses.Load(),
		Retries: c.Retries.Load(), Batches: c.Batches.Load(), Busy: time.Duration(c.Busy.Load()),
	}
	t.mu.Lock()
	s.State = t.state
	t.mu.Unlock()
	return s
}
