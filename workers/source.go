package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
	"millrace/transforms"
	"millrace/workers/letters"
	"millrace/workers/loop"
)

// sourceDef is a source connector, ready to run.
type sourceDef struct {
	name   string
	parsed connectors.Parsed
	chain  *loop.Stage // nil = none
	tasks  int
	dead   string // dead-letter topic
}

// sourceLoop brings one task's events into topics: one batch per answer of the
// source, with the positions reached. Invariant 2.
type sourceLoop struct {
	def    *sourceDef
	t      *loop.Task
	client bus.Client
	app    *loop.Appender
	state  *loop.State
	chain  transforms.Transform // nil = none
	known  map[string]bool      // topics that exist

	batches [2]sourceBatch // one in flight, one being filled
	turn    int
	flight  chan error // answer of the batch in flight; nil when there is none
	events  []event.Event
}

type sourceBatch struct {
	bus.Batch
	w         loop.Writer
	positions map[string]json.RawMessage
	events    int
	state     bool
}

func (d *sourceDef) run(ctx context.Context, t *loop.Task) error {
	positions, err := t.Client.Positions(ctx, t.Group)
	if err != nil {
		return fmt.Errorf("positions: %w", err)
	}
	l := &sourceLoop{
		def: d, t: t, client: t.Client, app: t.NewAppender(), known: map[string]bool{},
		state: loop.NewState(t.Client, t.Group),
	}
	if d.chain != nil {
		if l.chain, err = d.chain.Make(t); err != nil {
			return &loop.FailedError{Err: err}
		}
	}
	env, err := t.Env(d.name, d.tasks, l.state)
	if err != nil {
		return err
	}
	env.Positions = positions
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	src, err := d.parsed.Source.Open(ctx, d.parsed.Own, env)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	err = l.loop(ctx, cancel, src)
	if ferr := l.land(); ferr != nil && errors.Is(err, io.EOF) {
		err = ferr
	}
	if cerr := src.Close(); cerr != nil && errors.Is(err, io.EOF) {
		err = fmt.Errorf("close: %w", cerr)
	}
	return err
}

// loop reads and stores; it ends with an error, io.EOF when there is no more.
func (l *sourceLoop) loop(ctx context.Context, cancel context.CancelCauseFunc, src connectors.Source) error {
	acker, _ := src.(connectors.Acker)
	for {
		p, rerr := src.Read(ctx)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return fmt.Errorf("read: %w", rerr)
		}
		b, err := l.fill(ctx, &p)
		if err != nil {
			return err
		}
		if err := l.land(); err != nil { // order is kept: one batch in flight
			return err
		}
		if b != nil {
			l.launch(ctx, cancel, b)
		}
		if acker != nil && b != nil {
			// A source may wait for its acks, so none is read ahead of them.
			if err := l.land(); err != nil {
				return err
			}
			if err := acker.Ack(ctx, b.positions); err != nil { // Invariant 5: all of it is durable
				return fmt.Errorf("ack: %w", err)
			}
		}
		if rerr != nil {
			return rerr
		}
	}
}

// launch appends b while the source reads on.
func (l *sourceLoop) launch(ctx context.Context, cancel context.CancelCauseFunc, b *sourceBatch) {
	flight := make(chan error, 1)
	l.flight = flight
	go func() {
		start := time.Now()
		err := l.app.Put(ctx, &b.Batch)
		if err == nil {
			if b.state {
				l.state.Stored()
			}
			l.t.Counters.Batch(b.events, start)
		} else {
			cancel(err) // wakes a source that waits
		}
		flight <- err
	}()
}

// land waits for the batch in flight.
func (l *sourceLoop) land() error {
	if l.flight == nil {
		return nil
	}
	err := <-l.flight
	l.flight = nil
	return err
}

// fill makes a batch of one answer; nil when there is nothing to store.
func (l *sourceLoop) fill(ctx context.Context, p *connectors.Produced) (*sourceBatch, error) {
	b := &l.batches[l.turn]
	l.turn = 1 - l.turn
	*b = sourceBatch{w: b.w, positions: p.Positions}
	b.w.Reset()
	if l.chain == nil {
		for i := range p.Events {
			if err := l.add(ctx, &b.w, p.Events[i].Topic, &p.Events[i].Event); err != nil {
				return nil, err
			}
		}
		b.events = len(p.Events)
	} else if err := l.shape(ctx, &b.w, b, p.Events); err != nil {
		return nil, err
	}
	for i := range p.Failed {
		f := &p.Failed[i]
		if err := l.bad(ctx, &b.w, f.Origin, f.Raw, "read", f.Err); err != nil {
			return nil, err
		}
	}
	b.State = l.state.Take()
	b.state = len(b.State) > 0
	b.Writes = b.w.Used()
	if len(b.Writes) == 0 && len(p.Positions) == 0 && !b.state {
		return nil, nil
	}
	if len(p.Positions) > 0 {
		b.Saves = []bus.Checkpoint{{Owner: l.t.Owner(0), Positions: p.Positions}}
	} else {
		b.As = []bus.Owner{l.t.Owner(0)}
	}
	return b, nil
}

// add puts one event where it goes.
func (l *sourceLoop) add(ctx context.Context, w *loop.Writer, topic string, e *event.Event) error {
	if topic == "" {
		topic = l.def.parsed.SourceConfig.Topic
	}
	if topic == "" {
		return &loop.FailedError{Err: errors.New("topic: the source names none for its events: set topic in the connector's config")}
	}
	if !l.known[topic] {
		if _, err := loop.EnsureTopic(ctx, l.client, bus.Topic{Name: topic}); err != nil {
			return fmt.Errorf("topic %s: %w", topic, err)
		}
		l.known[topic] = true
	}
	*w.Event(topic) = stripReserved(*e)
	return nil
}

// shape adds what the connector's transforms make of the events.
func (l *sourceLoop) shape(ctx context.Context, w *loop.Writer, b *sourceBatch, in []connectors.Out) error {
	l.events = l.events[:0]
	for i := range in {
		l.events = append(l.events, stripReserved(in[i].Event))
	}
	results, err := l.chain.Apply(ctx, l.events)
	if err != nil {
		return fmt.Errorf("transforms: %w", err)
	}
	seen, dropped := 0, 0 // parents up to here; those without a result
	for i := range results {
		r := &results[i]
		dropped += max(0, r.Parent-seen)
		seen = max(seen, r.Parent+1)
		if r.Err != nil {
			e := &l.events[r.Parent]
			if err := l.bad(ctx, w, e.Source+"#"+e.ID, e.Data, loop.StepOf(r.Err), r.Err); err != nil {
				return err
			}
			continue
		}
		if err := l.add(ctx, w, in[r.Parent].Topic, &r.Event); err != nil {
			return err
		}
		b.events++
	}
	l.t.Counters.Drop(loop.DropStep, dropped+len(in)-seen)
	return nil
}

// bad treats an input that could not become an event as errors.tolerance says.
func (l *sourceLoop) bad(ctx context.Context, w *loop.Writer, origin string, raw []byte, step string, err error) error {
	conf := &l.def.parsed.SourceConfig
	if conf.Log {
		l.t.Log.Warn("input failed", "origin", origin, "step", step, "error", err)
	}
	if conf.Tolerance != "all" {
		return &loop.FailedError{Err: fmt.Errorf("%s: %s: %w (errors.tolerance is none)", origin, step, err)}
	}
	if !l.known[l.def.dead] {
		if err := letters.Ensure(ctx, l.client, l.def.dead); err != nil {
			return &loop.FailedError{Err: err}
		}
		l.known[l.def.dead] = true
	}
	if raw == nil {
		raw = []byte{}
	}
	*w.Event(l.def.dead) = event.Event{
		ID: origin, Source: "/connectors/" + l.def.name, Type: "millrace.bad-input", Time: l.t.Now(),
		ContentType: "application/octet-stream", Key: l.t.Group + "@" + origin, Data: raw,
		Ext: []event.Attr{{Name: event.ExtReason, Value: loop.Reason(err)}, {Name: event.ExtStep, Value: step}, {Name: event.ExtOrigin, Value: origin}},
	}
	l.t.Counters.Dead.Add(1)
	return nil
}

// stripReserved removes the extensions that only Millrace sets.
func stripReserved(e event.Event) event.Event {
	for i := range e.Ext {
		if event.Reserved(e.Ext[i].Name) {
			ext := make([]event.Attr, 0, len(e.Ext))
			for _, a := range e.Ext {
				if !event.Reserved(a.Name) {
					ext = append(ext, a)
				}
			}
			e.Ext = ext
			break
		}
	}
	return e
}
