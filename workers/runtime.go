package workers

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/bus"
	"millrace/connectors"
	"millrace/workers/loop"
)

// Options of a Runtime. Client and Plugins are needed; all else has a default.
type Options struct {
	Client  bus.Client
	Plugins []connectors.Plugin
	// WorkerID names this worker in statuses; default the host's name and a random
	// suffix.
	WorkerID string
	// DataDir is where connectors keep what can be lost; default a directory of this
	// worker below the system's temporary one.
	DataDir string
	Logger  *slog.Logger
	Now     func() time.Time // the wall clock; default time.Now
	// Random is in [0, 1) and spreads retries; default math/rand/v2.
	Random func() float64
	// StopTimeout is how long a task may take to stop before it is abandoned and
	// fenced; default 30 s.
	StopTimeout time.Duration
}

// Runtime reconciles this worker to the desired state. Make it with New, run it
// with Run.
type Runtime struct {
	o      Options
	status *statusWriter
	topics atomic.Pointer[topicView]
	routes routeSets

	mu    sync.Mutex
	units map[string]*unit // by key

	leaving sync.WaitGroup // units that are not wanted any more and not done yet
}

// topicView is the topics as last seen.
type topicView struct {
	list   []bus.Topic
	byName map[string]bus.Topic
	byID   map[uint64]string
}

// New makes a Runtime; nothing runs before Run.
func New(o Options) *Runtime {
	if o.WorkerID == "" {
		host, _ := os.Hostname() // "" does
		o.WorkerID = strings.TrimPrefix(host+"-"+strings.ToLower(rand.Text()[:6]), "-")
	}
	if o.DataDir == "" {
		o.DataDir = filepath.Join(os.TempDir(), "millrace-"+o.WorkerID)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = mrand.Float64
	}
	if o.StopTimeout <= 0 {
		o.StopTimeout = 30 * time.Second
	}
	r := &Runtime{o: o, status: newStatusWriter(o.Client, o.Logger), units: map[string]*unit{}}
	r.topics.Store(viewOf(nil))
	return r
}

func viewOf(list []bus.Topic) *topicView {
	v := &topicView{list: list, byName: make(map[string]bus.Topic, len(list)), byID: make(map[uint64]string, len(list))}
	for _, t := range list {
		v.byName[t.Name], v.byID[t.ID] = t, t.Name
	}
	return v
}

// Run keeps what runs here equal to what is desired until ctx ends or the bus is
// closed. It returns after all it started has stopped, but for
// tasks that were abandoned because they did not stop in time.
func (r *Runtime) Run(ctx context.Context) error {
	tables, err := r.openTables(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	// The statuses are stored until the last task has stopped.
	sctx, stopStatus := context.WithCancel(context.WithoutCancel(ctx))
	var status sync.WaitGroup
	status.Go(func() { r.status.run(sctx) })
	defer status.Wait()
	defer stopStatus()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	changed := make(chan struct{}, 1)
	for _, watch := range tables.watches(r, changed) {
		watching.Go(func() {
			for failed := 1; ; failed++ {
				err := watch(ctx)
				if ctx.Err() != nil {
					return
				}
				if errors.Is(err, bus.ErrClosed) || errors.Is(err, bus.ErrCorrupt) {
					cancel(err)
					return
				}
				r.o.Logger.Warn("desired state cannot be followed; tried again", "error", err)
				if loop.Wait(ctx, r.pause(failed)) != nil {
					return
				}
			}
		})
	}
	defer r.stopAll()
	r.o.Logger.Info("worker runs", "worker_id", r.o.WorkerID)
	publish := time.NewTicker(statusEvery)
	defer publish.Stop()
	for {
		if err := r.reconcile(ctx, tables); err != nil && ctx.Err() == nil {
			r.o.Logger.Warn("desired state is not reached; tried again", "error", err)
			notify(changed, time.Second)
		}
	waiting:
		for {
			select {
			case <-ctx.Done():
				if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
					return err
				}
				return nil
			case <-publish.C:
				r.publish()
			case <-changed:
				break waiting
			}
		}
	}
}

// notify puts a token into c, now or after a while.
func notify(c chan<- struct{}, after time.Duration) {
	if after > 0 {
		time.AfterFunc(after, func() { notify(c, 0) })
		return
	}
	select {
	case c <- struct{}{}:
	default:
	}
}

// apply makes the running units equal to the wanted ones: those that did not
// change are left alone.
func (r *Runtime) apply(ctx context.Context, wanted []unitSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep := make(map[string]bool, len(wanted))
	for _, spec := range wanted {
		keep[spec.Key] = true
		old := r.units[spec.Key]
		if old != nil && old.spec.Print == spec.Print {
			old.setRestarts(spec.Restarts)
			continue
		}
		r.start(ctx, spec, old)
	}
	for key, u := range r.units {
		if !keep[key] {
			r.o.Logger.Info("unit stops", "unit", key)
			u.cancel()
			delete(r.units, key)
			r.leaving.Go(func() {
				<-u.done
				r.forget(u)
			})
		}
	}
}

// start runs a unit once the one it replaces has stopped. The caller holds mu.
func (r *Runtime) start(ctx context.Context, spec unitSpec, old *unit) {
	r.o.Logger.Info("unit starts", "unit", spec.Key, "slots", len(spec.Slots))
	ctx, cancel := context.WithCancel(ctx)
	u := &unit{
		spec: spec, rt: r, log: r.o.Logger.With("unit", spec.Key), run: spec.run, cancel: cancel,
		done: make(chan struct{}), restarts: spec.Restarts, wake: make(chan struct{}, 1), tasks: map[int]*task{},
	}
	if old != nil {
		old.cancel()
	}
	r.units[spec.Key] = u
	go func() {
		if old != nil {
			<-old.done
		}
		u.serve(ctx)
	}()
}

// stopAll stops every unit and waits until each has ended or abandoned its tasks.
func (r *Runtime) stopAll() {
	for _, u := range r.runningUnits() {
		u.cancel()
	}
	for _, u := range r.runningUnits() {
		<-u.done
	}
	r.leaving.Wait()
}

func (r *Runtime) runningUnits() []*unit {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*unit, 0, len(r.units))
	for _, u := range r.units {
		all = append(all, u)
	}
	return all
}

// publish notes the counters of tasks that moved.
func (r *Runtime) publish() {
	for _, u := range r.runningUnits() {
		u.mu.Lock()
		for _, t := range u.tasks {
			if t.counters.Sum() != t.published.Load() {
				t.publish(false)
			}
		}
		u.mu.Unlock()
	}
}

// pause is the wait before a loop that failed n times in a row starts again: 1 s
// doubling to 60 s, the last fifth of it random.
func (r *Runtime) pause(n int) time.Duration {
	d := loop.Schedule{Delay: time.Second, Max: time.Minute, Factor: 2}.At(n)
	return d - time.Duration(r.o.Random()*float64(d)/5)
}
