package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
)

// deliveryDef is a unit that delivers: the topic and http targets of a rule, or
// a sink connector.
type deliveryDef struct {
	name  string
	lanes map[string]*laneDef // by topic
	sink  *sinkDef            // of a connector; nil for a rule
	log   bool                // log every failed event
}

// sinkDef opens a sink and bounds its batches.
type sinkDef struct {
	open     func(context.Context, connectors.Env) (connectors.Sink, error)
	records  int
	bytes    int
	interval time.Duration
}

const (
	maxRead   = 1000    // records
	readBytes = 4 << 20 // of one read
	idleWait  = 5 * time.Second
)

// errReopen ends a session: the sink is closed and opened again at the stored
// checkpoints. Why is noted in the lanes.
var errReopen = errors.New("the sink is opened again")

// delivery brings the events of a task's lanes to their target.
type delivery struct {
	def    *deliveryDef
	t      *task
	client bus.Client
	app    *appender
	lanes  []*lane
	open   *sinkDef // nil: lanes deliver to topics
	sink   connectors.Sink
	state  *state // of the sink and the transforms
	parks  *parks // nil: no lane parks
	turn   int

	// What waits for the next save.
	w       writer // dead letters and shaped events
	pending struct {
		records, bytes int       // given to the sink since its last flush
		passed         int       // records read since
		since          time.Time // of the first; zero = nothing waits
		byLane         []int
	}
	shaped []shaped
	out    []event.Record // kept by the sink until it is flushed
}

func (d *deliveryDef) run(ctx context.Context, t *task) error {
	rt := t.u.rt
	l := &delivery{def: d, t: t, client: rt.o.Client, app: rt.appender(t), open: d.sink}
	parking := false
	for i, s := range t.slots {
		topic, queue, _ := splitSlot(s.Name)
		def := d.lanes[topic]
		if def == nil {
			return &failedError{fmt.Errorf("slot %s: no target reads it", s.Name)}
		}
		l.lanes = append(l.lanes, &lane{laneDef: def, i: i, slot: s.Name, queue: queue})
		parking = parking || def.policy.onError == parkKey
		if def.sink != nil { // an http target: alone in its task
			l.open = def.sink
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
	rt := d.t.u.rt
	d.state = newState(d.client, d.t.u.spec.Group)
	d.parks = nil
	if parking {
		var own []string
		for _, l := range d.lanes {
			own = append(own, l.slot)
		}
		d.parks = newParks(d.client, d.t.u.spec.Group, own)
	}
	d.w.reset()
	d.settled()
	for _, l := range d.lanes {
		if err := d.prepare(ctx, l); err != nil {
			return err
		}
	}
	if d.open == nil {
		return d.loop(ctx)
	}
	env, err := rt.env(d.def.name, d.t.id, len(d.t.u.spec.Slots), d.state, d.t)
	if err != nil {
		return err
	}
	if d.sink, err = d.open.open(ctx, env); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if keeper, ok := d.sink.(connectors.OffsetKeeper); ok {
		err = d.keep(ctx, keeper)
	}
	if err == nil {
		err = d.loop(ctx)
	}
	if ctx.Err() != nil && d.t.held() == nil {
		d.finish(ctx)
	}
	if cerr := d.sink.Close(); cerr != nil && !errors.Is(err, errReopen) {
		d.t.log.Warn("sink did not close", "error", cerr)
	}
	d.sink = nil
	return err
}

// prepare loads a lane's checkpoint and compiles its stages.
func (d *delivery) prepare(ctx context.Context, l *lane) error {
	topic, err := d.client.Topic(ctx, l.topic)
	if err != nil {
		return err
	}
	saved, err := d.client.Checkpoint(ctx, d.t.u.spec.Group, l.slot)
	if err != nil {
		return fmt.Errorf("checkpoint of %s: %w", l.slot, err)
	}
	l.id, l.saved = topic.ID, saved.Next
	if l.saved < 0 {
		l.saved = l.starts.at(l.slot, topic)
	}
	l.clean()
	if l.stages == nil {
		for _, s := range l.laneDef.stages {
			st, err := s.make(d.t)
			if err != nil {
				return &failedError{err}
			}
			l.stages = append(l.stages, st)
		}
	}
	if l.target != "" {
		if _, err := ensureTopic(ctx, d.client, bus.Topic{Name: l.target}); err != nil {
			return fmt.Errorf("topic %s: %w", l.target, err)
		}
	}
	return nil
}

// keep starts the lanes where the sink's own offsets say.
func (d *delivery) keep(ctx context.Context, keeper connectors.OffsetKeeper) error {
	offsets, err := keeper.Offsets(ctx)
	if err != nil {
		return fmt.Errorf("offsets of the sink: %w", err)
	}
	for _, l := range d.lanes {
		if next, ok := offsets[l.slot]; ok {
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
				cursors = append(cursors, bus.Cursor{Topic: l.topic, ID: l.id, Queue: l.queue, Next: l.next})
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
	return d.open.interval
}

// due reports whether what was given to the sink is to be flushed now.
func (d *delivery) due(now time.Time) bool {
	p := &d.pending
	if p.since.IsZero() {
		return false
	}
	return d.open == nil || p.records >= d.open.records || p.bytes >= d.open.bytes || now.Sub(p.since) >= d.open.interval
}

// read takes what the cursors have and delivers it lane by lane.
func (d *delivery) read(ctx context.Context, cursors []bus.Cursor, pause time.Duration) error {
	if len(cursors) == 0 {
		if pause > 0 {
			return wait(ctx, pause)
		}
		return nil
	}
	limit := bus.Limit{Records: maxRead, Bytes: readBytes, Wait: pause}
	if d.open != nil {
		limit.Records, limit.Bytes = min(maxRead, d.open.records), d.open.bytes
	}
	recs, err := d.client.Read(ctx, cursors, limit)
	if err != nil {
		return readError(ctx, err)
	}
	for len(recs) > 0 {
		n := 1
		for n < len(recs) && recs[n].Queue == recs[0].Queue && recs[n].Topic == recs[0].Topic {
			n++
		}
		for _, l := range d.lanes {
			if l.queue == recs[0].Queue && l.topic == recs[0].Topic {
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

func readError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("read: %w", err)
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
		cursor := []bus.Cursor{{Topic: l.topic, ID: l.id, Queue: l.queue, Next: l.next}}
		recs, err := d.client.Read(ctx, cursor, bus.Limit{Records: l.limit, Bytes: readBytes})
		if err != nil {
			return busy, readError(ctx, err)
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
		if err := d.t.held(); err != nil {
			return err
		}
		if err := d.sink.Flush(ctx); err != nil {
			return d.crash(ctx, fmt.Errorf("flush: %w", err))
		}
	}
	b := bus.Batch{Writes: d.w.used(), State: d.state.take()}
	state := len(b.State) > 0
	if d.parks != nil {
		b.State = append(b.State, d.parks.fresh...)
	}
	for _, l := range d.lanes {
		if safe := l.safe(); safe != l.saved {
			b.Saves = append(b.Saves, bus.Checkpoint{Owner: d.t.owner(l.i), Next: safe})
		} else {
			b.As = append(b.As, d.t.owner(l.i))
		}
	}
	if err := d.app.put(ctx, &b); err != nil {
		if ctx.Err() == nil && permanent(err) && d.open == nil {
			return d.crash(ctx, err)
		}
		return fmt.Errorf("checkpoint: %w", err)
	}
	if state {
		d.state.stored()
	}
	if d.parks != nil {
		d.parks.stored()
	}
	for _, l := range d.lanes {
		if safe := l.safe(); safe != l.saved {
			l.saved = safe
			if len(l.held) == 0 && (l.failed == 0 || safe > l.head) {
				d.moved(l)
			}
		}
	}
	d.t.counters.batch(p.passed, p.since)
	d.w.reset()
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
	until := time.Now().Add(min(5*time.Second, d.t.u.rt.o.StopTimeout/2))
	if lease := *d.t.until.Load(); lease.Before(until) {
		until = lease
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	if err := d.flush(ctx); err != nil {
		d.t.log.Info("last flush failed; its events come again", "error", err)
	}
}
