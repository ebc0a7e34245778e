package deliver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
	"millrace/workers/letters"
	"millrace/workers/loop"
)

const idleWait = 5 * time.Second

// errReopen ends a session: the sink is closed and opened again at the stored
// checkpoints. Why is noted in the lanes.
var errReopen = errors.New("the sink is opened again")

// delivery brings the events of a task's lanes to their target.
type delivery struct {
	def    *Unit
	t      *loop.Task
	client bus.Client
	app    *loop.Appender
	lanes  []*lane
	open   *Sink // nil: lanes deliver to topics
	sink   connectors.Sink
	state  *loop.State    // of the sink and the transforms
	parks  *letters.Parks // nil: no lane parks
	turn   int

	// What waits for the next save.
	w       loop.Writer // dead letters and shaped events
	pending struct {
		records, bytes int       // given to the sink since its last flush
		passed         int       // records read since
		since          time.Time // of the first; zero = nothing waits
		byLane         []int
	}
	shaped []shaped
	out    []event.Record // kept by the sink until it is flushed
}

// Run delivers the events of t's slots until ctx ends. It is a loop.Run.
func (d *Unit) Run(ctx context.Context, t *loop.Task) error {
	l := &delivery{def: d, t: t, client: t.Client, app: t.NewAppender(), open: d.Sink}
	parking := false
	for i, s := range t.Slots {
		topic, queue, _ := loop.SplitSlot(s.Name)
		def := d.Lanes[topic]
		if def == nil {
			return &loop.FailedError{Err: fmt.Errorf("slot %s: no target reads it", s.Name)}
		}
		l.lanes = append(l.lanes, &lane{Lane: def, i: i, slot: s.Name, queue: queue})
		parking = parking || def.Policy.OnError == loop.ParkKey
		if def.Sink != nil { // an http target: alone in its task
			l.open = def.Sink
		}
	}
	l.pending.byLane = make([]int, len(l.lanes))
	for {
		if err := l.session(ctx, parking); !errors.Is(err, errReopen) {
			return err
		}
	}
}

// session opens the target and delivers from the stored checkpoints on.
func (d *delivery) session(ctx context.Context, parking bool) error {
	d.state = loop.NewState(d.client, d.t.Group)
	d.w.Reset()
	d.settled()
	own := map[string]uint64{}
	for _, l := range d.lanes {
		if err := d.prepare(ctx, l); err != nil {
			return err
		}
		own[l.slot] = l.id
	}
	d.parks = nil
	if parking {
		d.parks = letters.NewParks(d.client, d.t.Group, own)
	}
	if d.open == nil {
		return d.loop(ctx)
	}
	env, err := d.t.Env(d.def.Name, d.t.Total, d.state)
	if err != nil {
		return err
	}
	if d.sink, err = d.open.Open(ctx, env); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if keeper, ok := d.sink.(connectors.OffsetKeeper); ok {
		err = d.keep(ctx, keeper)
	}
	if err == nil {
		err = d.loop(ctx)
	}
	if ctx.Err() != nil && d.t.Held() == nil {
		d.finish(ctx)
	}
	if cerr := d.sink.Close(); cerr != nil && !errors.Is(err, errReopen) {
		d.t.Log.Warn("sink did not close", "error", cerr)
	}
	d.sink = nil
	return err
}

// prepare loads a lane's checkpoint and compiles its stages.
func (d *delivery) prepare(ctx context.Context, l *lane) error {
	topic, err := d.client.Topic(ctx, l.Topic)
	if err != nil {
		return err
	}
	saved, err := d.client.Checkpoint(ctx, d.t.Group, l.slot)
	if err != nil {
		return fmt.Errorf("checkpoint of %s: %w", l.slot, err)
	}
	l.id, l.saved, l.reset = topic.ID, saved.Next, saved.Reset
	if l.saved < 0 {
		l.saved = l.Starts.Of(l.slot, topic)
	}
	l.clean()
	if l.stages == nil {
		for _, s := range l.Stages {
			st, err := s.Make(d.t)
			if err != nil {
				return &loop.FailedError{Err: err}
			}
			l.stages = append(l.stages, st)
		}
	}
	if l.Target != "" {
		if _, err := loop.EnsureTopic(ctx, d.client, bus.Topic{Name: l.Target}); err != nil {
			return fmt.Errorf("topic %s: %w", l.Target, err)
		}
	}
	return nil
}

// keep starts the lanes where the sink's own offsets say: they are stored with
// the data, so they are ahead where a crash came before the checkpoint. They do
// not count after a reset, nor where they cannot be of this topic.
func (d *delivery) keep(ctx context.Context, keeper connectors.OffsetKeeper) error {
	offsets, err := keeper.Offsets(ctx)
	if err != nil {
		return fmt.Errorf("offsets of the sink: %w", err)
	}
	for _, l := range d.lanes {
		next, ok := offsets[l.slot]
		if !ok || l.reset {
			continue
		}
		bounds, err := d.client.Bounds(ctx, l.Topic)
		if err != nil {
			return err
		}
		if l.queue < len(bounds) && next <= bounds[l.queue].Next {
			l.next = next
		}
	}
	return nil
}

func (d *delivery) loop(ctx context.Context) error {
	cursors := make([]bus.Cursor, 0, len(d.lanes))
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		busy, err := d.alone(ctx)
		if err != nil {
			return err
		}
		cursors = cursors[:0]
		now := time.Now()
		d.turn++
		for i := range d.lanes {
			l := d.lanes[(i+d.turn)%len(d.lanes)] // none starves
			if len(l.held) == 0 && !l.isolating() && !l.retryAt.After(now) {
				cursors = append(cursors, bus.Cursor{Topic: l.Topic, ID: l.id, Queue: l.queue, Next: l.next})
			}
		}
		pause := d.pause(now)
		if busy {
			pause = 0
		}
		if err := d.read(ctx, cursors, pause); err != nil {
			return err
		}
		if d.due(time.Now()) {
			if err := d.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// pause is how long nothing needs to be done unless events come.
func (d *delivery) pause(now time.Time) time.Duration {
	pause := idleWait
	if !d.pending.since.IsZero() {
		pause = min(pause, d.interval()-now.Sub(d.pending.since))
	}
	for _, l := range d.lanes {
		if !l.retryAt.IsZero() && (len(l.held) > 0 || l.isolating() || l.retryAt.After(now)) {
			pause = min(pause, l.retryAt.Sub(now))
		}
	}
	return max(pause, time.Millisecond)
}

func (d *delivery) interval() time.Duration {
	if d.open == nil {
		return 0
	}
	return d.open.Interval
}

// due reports whether what was given to the sink is to be flushed now.
func (d *delivery) due(now time.Time) bool {
	p := &d.pending
	if p.since.IsZero() {
		return false
	}
	return d.open == nil || p.records >= d.open.Records || p.bytes >= d.open.Bytes || now.Sub(p.since) >= d.open.Interval
}

// read takes what the cursors have and delivers it lane by lane.
func (d *delivery) read(ctx context.Context, cursors []bus.Cursor, pause time.Duration) error {
	if len(cursors) == 0 {
		if pause > 0 {
			return loop.Wait(ctx, pause)
		}
		return nil
	}
	limit := bus.Limit{Records: loop.MaxRead, Bytes: loop.ReadBytes, Wait: pause}
	if d.open != nil {
		limit.Records, limit.Bytes = min(loop.MaxRead, d.open.Records), d.open.Bytes
	}
	recs, err := d.client.Read(ctx, cursors, limit)
	if err != nil {
		return loop.ReadError(ctx, err)
	}
	for len(recs) > 0 {
		n := 1
		for n < len(recs) && recs[n].Queue == recs[0].Queue && recs[n].Topic == recs[0].Topic {
			n++
		}
		for _, l := range d.lanes {
			if l.queue == recs[0].Queue && l.Topic == recs[0].Topic {
				if err := d.deliver(ctx, l, recs[:n:n]); err != nil {
					return err
				}
				break
			}
		}
		recs = recs[n:]
	}
	return nil
}

// alone serves lanes that are after a failing event: their batches stand alone,
// so that it is clear which of them fails. It reports whether it did anything.
func (d *delivery) alone(ctx context.Context) (busy bool, err error) {
	for _, l := range d.lanes {
		if l.retryAt.After(time.Now()) || len(l.held) == 0 && !l.isolating() {
			continue
		}
		if err := d.flush(ctx); err != nil {
			return busy, err
		}
		if len(l.held) > 0 {
			busy = true
			if err := d.rewrite(ctx, l); err != nil {
				return busy, err
			}
			continue
		}
		cursor := []bus.Cursor{{Topic: l.Topic, ID: l.id, Queue: l.queue, Next: l.next}}
		recs, err := d.client.Read(ctx, cursor, bus.Limit{Records: l.limit, Bytes: loop.ReadBytes})
		if err != nil {
			return busy, loop.ReadError(ctx, err)
		}
		if len(recs) == 0 { // what failed is gone
			l.limit = 0
			continue
		}
		busy = true
		if err := d.deliver(ctx, l, recs); err != nil {
			return busy, err
		}
		if err := d.flush(ctx); err != nil {
			return busy, err
		}
	}
	return busy, nil
}

// flush makes all that was written durable at the target, then saves how far the
// lanes are, with their dead letters and state. Invariant 5.
func (d *delivery) flush(ctx context.Context) error {
	p := &d.pending
	if p.since.IsZero() {
		return nil
	}
	if d.sink != nil && p.records > 0 {
		if err := d.t.Held(); err != nil {
			return err
		}
		if err := d.sink.Flush(ctx); err != nil {
			return d.crash(ctx, fmt.Errorf("flush: %w", err))
		}
	}
	b := bus.Batch{Writes: d.w.Used(), State: d.state.Take()}
	state := len(b.State) > 0
	if d.parks != nil {
		b.State = append(b.State, d.parks.Fresh()...)
	}
	for _, l := range d.lanes {
		if safe := l.safe(); safe != l.saved {
			b.Saves = append(b.Saves, bus.Checkpoint{Owner: d.t.Owner(l.i), Next: safe})
		} else {
			b.As = append(b.As, d.t.Owner(l.i))
		}
	}
	if err := d.app.Put(ctx, &b); err != nil {
		if ctx.Err() == nil && loop.Permanent(err) && d.open == nil {
			return d.crash(ctx, err)
		}
		return fmt.Errorf("checkpoint: %w", err)
	}
	if state {
		d.state.Stored()
	}
	if d.parks != nil {
		d.parks.Stored()
	}
	for _, l := range d.lanes {
		if safe := l.safe(); safe != l.saved {
			l.saved = safe
			if len(l.held) == 0 && (l.failed == 0 || safe > l.head) {
				d.moved(l)
			}
		}
	}
	d.t.Counters.Batch(p.passed, p.since)
	d.w.Reset()
	d.settled()
	return nil
}

// settled forgets what was waiting for the flush.
func (d *delivery) settled() {
	p := &d.pending
	p.records, p.bytes, p.passed, p.since = 0, 0, 0, time.Time{}
	clear(p.byLane)
	d.out = d.out[:0]
}

// crash notes a failure that says nothing of single records, in all lanes that
// have some at stake; the session ends with it.
func (d *delivery) crash(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	for i, n := range d.pending.byLane {
		if n > 0 {
			d.failed(d.lanes[i], err, n, &d.lanes[i].last)
		}
	}
	return errReopen
}

// finish flushes what the sink has when the task is told to stop.
func (d *delivery) finish(ctx context.Context) {
	until := time.Now().Add(min(5*time.Second, d.t.StopTimeout/2))
	if lease := d.t.Until(); lease.Before(until) {
		until = lease
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	if err := d.flush(ctx); err != nil {
		d.t.Log.Info("last flush failed; its events come again", "error", err)
	}
}
