package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"millrace/bus"
	"millrace/workers/loop"
)

// errHung says that a task did not end when it was told to. Its unit gives up
// its slots, which fences whatever the task may still do, and joins anew.
var errHung = errors.New("a task did not stop in time and was abandoned")

// unit is one membership in a group and the tasks on the slots it owns.
type unit struct {
	spec   unitSpec
	rt     *Runtime
	log    *slog.Logger
	run    loop.Run
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	restarts map[string]int
	wake     chan struct{} // holds one token
	tasks    map[int]*task // by class
}

// serve joins and runs tasks until ctx ends, and returns once they have ended
// or were abandoned.
func (u *unit) serve(ctx context.Context) {
	defer close(u.done)
	for failed := 0; ctx.Err() == nil; {
		began := time.Now()
		err := u.member(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			failed = 0
		}
		failed++
		u.log.Warn("membership ended; joining again", "group", u.spec.Group, "error", err)
		if loop.Wait(ctx, u.rt.pause(failed)) != nil {
			return
		}
	}
}

// answer is one answer of Member.Slots.
type answer struct {
	slots []bus.Slot
	err   error
}

// member is one membership, from Join to Leave.
func (u *unit) member(ctx context.Context) (err error) {
	client := u.rt.o.Client
	m, err := client.Join(ctx, u.spec.Group, u.spec.Slots)
	if err != nil {
		return err
	}
	mctx, stop := context.WithCancel(ctx)
	answers, handled := make(chan answer), make(chan struct{})
	var polling sync.WaitGroup
	polling.Go(func() { poll(mctx, m, answers, handled) })
	defer func() {
		stop()
		polling.Wait()
		if !u.stopTasks(u.rt.o.StopTimeout, func(*task) bool { return true }) {
			err = errors.Join(err, errHung)
		}
		// Leaving raises the epochs: an abandoned task can store nothing more.
		lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if lerr := m.Leave(lctx); lerr != nil && !errors.Is(lerr, bus.ErrNoMember) && !errors.Is(lerr, bus.ErrClosed) {
			err = errors.Join(err, fmt.Errorf("leave: %w", lerr))
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-u.wake:
			if !u.restart(mctx) {
				return errHung
			}
		case a := <-answers:
			if a.err != nil {
				return a.err
			}
			if !u.assign(mctx, a.slots) {
				return errHung
			}
			select {
			case handled <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// poll calls Slots again only after its last answer was acted upon. Faults that
// may pass are not told: a task ends by itself when its lease does.
func poll(ctx context.Context, m bus.Member, answers chan<- answer, handled <-chan struct{}) {
	for ctx.Err() == nil {
		slots, err := m.Slots(ctx)
		if err != nil && !errors.Is(err, bus.ErrNoMember) && !errors.Is(err, bus.ErrClosed) {
			if loop.Wait(ctx, 250*time.Millisecond) != nil {
				return
			}
			continue
		}
		select {
		case answers <- answer{slots, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		select {
		case <-handled:
		case <-ctx.Done():
			return
		}
	}
}

// assign makes the tasks fit the owned slots: it renews those that stay, stops
// those whose slots changed, and starts what is new. False: one did not stop.
func (u *unit) assign(ctx context.Context, owned []bus.Slot) bool {
	want := u.classes(owned)
	ok := u.stopTasks(u.patience(owned), func(t *task) bool { return !t.sameSlots(want[t.class]) })
	if !ok {
		return false
	}
	var ids []int
	for class, slots := range want {
		if t := u.tasks[class]; t != nil {
			t.renew(slots)
			continue
		}
		ids = append(ids, u.start(ctx, class, slots))
	}
	if len(ids) > 0 {
		u.rt.clearStale(ctx, u, owned)
	}
	return true
}

// patience is how long a task may take to stop while the other leases wait.
func (u *unit) patience(owned []bus.Slot) time.Duration {
	d := u.rt.o.StopTimeout
	for _, s := range owned {
		d = min(d, time.Until(s.Until)-time.Second)
	}
	return max(d, time.Second)
}

// classes shares the owned slots out among the unit's tasks: slot number i goes
// to task i modulo the number of tasks.
func (u *unit) classes(owned []bus.Slot) map[int][]bus.Slot {
	n := u.spec.Tasks
	if n <= 0 || n > len(u.spec.Slots) {
		n = len(u.spec.Slots)
	}
	want := map[int][]bus.Slot{}
	for _, s := range owned {
		i, known := slices.BinarySearchFunc(u.spec.Slots, s.Name, loop.CompareSlots)
		if !known { // another member names more; this one cannot serve it
			continue
		}
		want[i%n] = append(want[i%n], s)
	}
	for _, slots := range want {
		slices.SortFunc(slots, func(a, b bus.Slot) int { return loop.CompareSlots(a.Name, b.Name) })
	}
	return want
}

// start runs a new task and returns its id: the number of its lowest slot, which
// no other member can have at the same time.
func (u *unit) start(ctx context.Context, class int, slots []bus.Slot) int {
	id, _ := slices.BinarySearchFunc(u.spec.Slots, slots[0].Name, loop.CompareSlots)
	t := &task{u: u, id: id, class: class, slots: slots, done: make(chan struct{})}
	t.log = u.log.With("task", id)
	u.mu.Lock()
	t.restarts = restartsOf(u.restarts, id)
	u.tasks[class] = t
	u.mu.Unlock()
	t.begin(ctx)
	return id
}

// stopTasks ends the chosen tasks; false when one is still running after
// patience, which is then left to itself.
func (u *unit) stopTasks(patience time.Duration, chosen func(*task) bool) bool {
	var stopping []*task
	u.mu.Lock()
	for class, t := range u.tasks {
		if chosen(t) {
			stopping = append(stopping, t)
			delete(u.tasks, class)
		}
	}
	u.mu.Unlock()
	for _, t := range stopping {
		t.cancel(context.Canceled)
	}
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ok := true
	for _, t := range stopping {
		select {
		case <-t.done:
			continue
		default:
		}
		if ok {
			select {
			case <-t.done:
				continue
			case <-deadline.C:
				ok = false
			}
		}
		t.until.Store(&time.Time{}) // it starts no external write any more
		t.log.Warn("task did not stop in time and is abandoned", "after", patience)
	}
	return ok
}

// setRestarts takes the counts of asked-for restarts; those that rose restart
// their tasks.
func (u *unit) setRestarts(counts map[string]int) {
	u.mu.Lock()
	u.restarts = counts
	u.mu.Unlock()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *unit) restart(ctx context.Context) bool {
	u.mu.Lock()
	counts := u.restarts
	u.mu.Unlock()
	type again struct {
		class int
		slots []bus.Slot
	}
	var all []again
	patience := u.rt.o.StopTimeout
	ok := u.stopTasks(patience, func(t *task) bool {
		if restartsOf(counts, t.id) == t.restarts {
			return false
		}
		all = append(all, again{t.class, t.current()})
		return true
	})
	if !ok {
		return false
	}
	for _, a := range all {
		u.start(ctx, a.class, a.slots)
	}
	return true
}

func restartsOf(counts map[string]int, id int) int {
	return counts[""] + counts[strconv.Itoa(id)]
}
