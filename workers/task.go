package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/bus"
	"millrace/workers/loop"
)

// task runs one loop over the slots of one class, again and again.
type task struct {
	u         *unit
	id        int // in the status topic
	class     int
	slots     []bus.Slot // names and epochs; Until as first told
	restarts  int
	log       *slog.Logger
	cancel    context.CancelCauseFunc
	done      chan struct{}
	counters  loop.Counters
	published atomic.Int64 // sum of the counters when last published
	until     atomic.Pointer[time.Time]
	expiry    *time.Timer

	mu    sync.Mutex
	state string
	trace string
}

// begin starts the task's goroutine. Its context ends with ctx, when the task is
// stopped, or when its lease ends.
func (t *task) begin(ctx context.Context) {
	ctx, t.cancel = context.WithCancelCause(ctx)
	until := leaseOf(t.slots)
	t.until.Store(&until)
	t.expiry = time.AfterFunc(time.Until(until), func() { t.cancel(loop.ErrLease) })
	go func() {
		defer close(t.done)
		defer t.expiry.Stop()
		t.run(ctx)
	}()
}

func leaseOf(slots []bus.Slot) time.Time {
	until := slots[0].Until
	for _, s := range slots[1:] {
		if s.Until.Before(until) {
			until = s.Until
		}
	}
	return until
}

// renew moves the end of the lease.
func (t *task) renew(slots []bus.Slot) {
	until := leaseOf(slots)
	t.until.Store(&until)
	t.expiry.Reset(time.Until(until))
}

// current is the task's slots with their present lease.
func (t *task) current() []bus.Slot {
	slots := slices.Clone(t.slots)
	for i := range slots {
		slots[i].Until = *t.until.Load()
	}
	return slots
}

func (t *task) sameSlots(slots []bus.Slot) bool {
	select {
	case <-t.done: // it ended with its lease
		return false
	default:
	}
	return slices.EqualFunc(t.slots, slots, func(a, b bus.Slot) bool { return a.Name == b.Name && a.Epoch == b.Epoch })
}

// run repeats the loop, with a growing pause after each failure. Invariant 7.
func (t *task) run(ctx context.Context) {
	if t.u.spec.Paused {
		t.report(StatePaused, nil)
		<-ctx.Done()
		return
	}
	for failed := 0; ; {
		began := time.Now()
		t.report(StateRunning, nil)
		err := t.once(ctx)
		if ctx.Err() != nil {
			return
		}
		var final *loop.FailedError
		switch {
		case err == nil || errors.Is(err, io.EOF):
			t.report(StateRunning, nil)
			<-ctx.Done()
			return
		case errors.As(err, &final):
			t.log.Warn("task failed; it waits for a restart or another config", "error", err)
			t.report(StateFailed, err)
			<-ctx.Done()
			return
		}
		if time.Since(began) > time.Minute {
			failed = 0
		}
		failed++
		pause := t.u.rt.pause(failed)
		t.log.Warn("task failed; it starts again", "error", err, "pause", pause)
		t.report(StateFailed, err)
		if loop.Wait(ctx, pause) != nil {
			return
		}
	}
}

// once runs the loop one time; a connector that panics fails its own task only.
func (t *task) once(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	rt := t.u.rt
	return t.u.run(ctx, &loop.Task{
		Client: rt.o.Client, Log: t.log, Now: rt.o.Now, Random: rt.o.Random, DataDir: rt.o.DataDir,
		Group: t.u.spec.Group, ID: t.id, Total: len(t.u.spec.Slots), Slots: t.slots,
		Counters: &t.counters, StopTimeout: rt.o.StopTimeout,
		Until:     func() time.Time { return *t.until.Load() },
		Report:    func(err error) { t.report(StateRunning, err) },
		TopicName: func(id uint64) (string, bool) { name, ok := rt.topics.Load().byID[id]; return name, ok },
	})
}

// report notes the task's state for the status topic; at once when it changed.
func (t *task) report(state string, err error) {
	trace := ""
	if err != nil {
		trace = err.Error()
	}
	t.mu.Lock()
	changed := state != t.state || trace != t.trace
	t.state, t.trace = state, trace
	t.mu.Unlock()
	if changed {
		t.publish(true)
	}
}

// publish notes the task's counters for the status topic.
func (t *task) publish(now bool) {
	t.mu.Lock()
	state, trace := t.state, t.trace
	t.mu.Unlock()
	t.published.Store(t.counters.Sum())
	t.u.rt.status.set(TaskStatusKey(t.u.spec.Name, t.id), TaskStatus{
		ID: t.id, State: state, WorkerID: t.u.rt.o.WorkerID, Epoch: t.slots[0].Epoch, Trace: trace,
		Events: t.counters.Events.Load(), Dropped: t.counters.AllDropped(), Dead: t.counters.Dead.Load(),
		Misses: t.counters.Misses.Load(), Updated: t.u.rt.o.Now(),
	}, now)
}
