package deliver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
	"millrace/workers/letters"
	"millrace/workers/loop"
)

// held is a record that the sink refused alone, on its way to the next try.
type held struct {
	src event.Record // as it was read
	out event.Record // as it is written
	err error
}

// deliver takes records of one lane to the target: those that fail follow the
// lane's policy, all others are given to the sink or to the next batch.
func (d *delivery) deliver(ctx context.Context, l *lane, recs []event.Record) error {
	p := &d.pending
	if p.since.IsZero() {
		p.since = time.Now()
	}
	p.passed += len(recs)
	next := recs[len(recs)-1].Offset + 1
	if l.failed > 0 && recs[0].Offset != l.head { // what failed is gone
		l.failed, l.given = 0, nil
	}
	recs[0].Attempt += l.failed
	if l.given != nil {
		if err := d.giveUp(ctx, l, &recs[0], l.given, loop.StepOf(l.given)); err != nil {
			return err
		}
		recs = recs[1:]
	}
	work, err := d.unparked(ctx, l, recs)
	if err != nil {
		return err
	}
	d.shaped = d.shaped[:0]
	var stop *held
	if len(l.stages) > 0 && len(work) > 0 {
		var fails map[int]error
		d.shaped, err = l.shape(ctx, work, d.t.Counters, d.shaped, func(parent int, err error) {
			if fails == nil {
				fails = map[int]error{}
			}
			fails[parent] = err
		})
		if err != nil {
			return d.batchFailed(ctx, l, fmt.Errorf("transforms: %w", err), work)
		}
		if fails != nil {
			if work, stop, err = d.unshaped(ctx, l, work, fails); err != nil {
				return err
			}
		}
	}
	if stop != nil {
		p.passed -= int(next - stop.src.Offset)
		next = stop.src.Offset
	}
	if l.Target != "" {
		d.toTopic(l, work)
		if err := d.unpark(ctx, l, work, nil); err != nil {
			return err
		}
	} else if err := d.toSink(ctx, l, work); err != nil {
		return err
	}
	l.next = next
	p.byLane[l.i] += len(work)
	if len(work) > 0 {
		l.last = work[len(work)-1]
	}
	if stop != nil {
		d.failed(l, stop.err, 1, &stop.src)
	}
	return nil
}

// unparked takes out the records whose key is parked: they become dead letters
// behind the one that failed.
func (d *delivery) unparked(ctx context.Context, l *lane, recs []event.Record) ([]event.Record, error) {
	if d.parks == nil || l.Policy.OnError != loop.ParkKey {
		return recs, nil
	}
	work := recs[:0:len(recs)]
	for i := range recs {
		follows, err := d.follows(ctx, l, &recs[i])
		if err != nil {
			return nil, err
		}
		if !follows {
			work = append(work, recs[i])
		}
	}
	return work, nil
}

var errParked = errors.New("an earlier event of this key failed; redrive its dead letters to let the key flow again")

// follows dead-letters a record whose key is parked, and reports whether it did.
func (d *delivery) follows(ctx context.Context, l *lane, rec *event.Record) (bool, error) {
	if rec.Key == "" {
		return false, nil
	}
	slot, mark, redriven := placeOf(l, rec)
	k, err := d.parks.Get(ctx, slot, rec.Key)
	if err != nil || k == nil || redriven && k.Round != mark.Round {
		return false, err
	}
	return true, d.giveUp(ctx, l, rec, errParked, letters.StepParked)
}

// placeOf is the slot that a record belongs to: where it failed, when it was
// redriven.
func placeOf(l *lane, rec *event.Record) (slot string, mark letters.Mark, ok bool) {
	if len(rec.Ext) > 0 {
		if mark, ok = letters.MarkOf(&rec.Event); ok {
			return mark.Slot, mark, true
		}
	}
	return l.slot, mark, false
}

// unshaped treats records that the transforms failed on. It returns those that go
// on, and the first that must not be passed: all from it on stay in the queue.
func (d *delivery) unshaped(ctx context.Context, l *lane, work []event.Record, fails map[int]error) ([]event.Record, *held, error) {
	gone := make(map[int]bool, len(fails))
	cut := len(work)
	var stop *held
	for i := range work {
		err := fails[i]
		switch {
		case err == nil && (d.parks == nil || l.Policy.OnError != loop.ParkKey):
		case err == nil: // its key may have been parked just now
			follows, ferr := d.follows(ctx, l, &work[i])
			if ferr != nil {
				return nil, nil, ferr
			}
			gone[i] = follows
		case !loop.Permanent(err) || l.Policy.On(work[i].Type) == loop.Block:
			stop, cut = &held{src: work[i], err: err}, i
		default:
			if err := d.giveUp(ctx, l, &work[i], err, loop.StepOf(err)); err != nil {
				return nil, nil, err
			}
			gone[i] = true
		}
		if stop != nil {
			break
		}
	}
	d.shaped = slices.DeleteFunc(d.shaped, func(s shaped) bool { return s.parent >= cut || gone[s.parent] })
	return work[:cut], stop, nil
}

// toTopic puts the shaped events into the next batch.
func (d *delivery) toTopic(l *lane, work []event.Record) {
	if len(l.stages) == 0 {
		for i := range work {
			*d.w.Event(l.Target) = marked(&work[i].Event, d.t.Origin(&work[i]), loop.Hops(&work[i].Event)+1)
		}
		return
	}
	origin, of := "", -1
	for i := range d.shaped {
		s := &d.shaped[i]
		src := &work[s.parent]
		if of != s.parent {
			origin, of = d.t.Origin(src), s.parent
		}
		*d.w.Event(l.Target) = marked(&s.event, origin, loop.Hops(&src.Event)+1)
	}
}

// toSink writes what was shaped. Records that fail alone are held or given up.
func (d *delivery) toSink(ctx context.Context, l *lane, work []event.Record) error {
	outs, parent := d.records(l, work)
	if len(outs) == 0 {
		return nil
	}
	if err := d.t.Held(); err != nil { // Invariant 11
		return err
	}
	err := d.sink.Write(ctx, outs)
	d.pending.records += len(outs)
	for i := range outs {
		d.pending.bytes += len(outs[i].Data) + 256
	}
	if err == nil {
		return d.unpark(ctx, l, work, nil)
	}
	failed, ok := asBatchError(err)
	if !ok {
		return d.batchFailed(ctx, l, err, work)
	}
	bad := map[int]bool{}
	for _, i := range slices.Sorted(maps.Keys(failed)) {
		if i < 0 || i >= len(outs) {
			return d.batchFailed(ctx, l, fmt.Errorf("the sink named record %d of %d: %w", i, len(outs), err), work)
		}
		src := &work[parent(i)]
		bad[parent(i)] = true
		if err := d.refused(ctx, l, held{src: *src, out: outs[i], err: failed[i]}); err != nil {
			return err
		}
	}
	if len(l.held) > 0 {
		d.failed(l, l.held[0].err, 1, &l.held[0].src)
	}
	return d.unpark(ctx, l, work, bad)
}

// refused keeps a record that failed alone for the next try, or gives it up.
func (d *delivery) refused(ctx context.Context, l *lane, h held) error {
	if loop.Permanent(h.err) && l.Policy.On(h.src.Type) != loop.Block {
		return d.giveUp(ctx, l, &h.src, h.err, loop.StepOf(h.err))
	}
	l.held = append(l.held, h)
	return nil
}

// records is what is written: the read records themselves where nothing shapes
// them. It stays as it is until the next flush, for sinks that keep it.
func (d *delivery) records(l *lane, work []event.Record) (outs []event.Record, parent func(int) int) {
	start := len(d.out)
	if len(l.stages) > 0 {
		for i := range d.shaped {
			s := &d.shaped[i]
			d.out = append(d.out, d.written(&work[s.parent], s.event))
		}
		return d.out[start:], func(i int) int { return d.shaped[i].parent }
	}
	same := func(i int) int { return i }
	if !slices.ContainsFunc(work, func(r event.Record) bool { _, ok := loop.Ext(&r.Event, letters.ExtRedrive); return ok }) {
		return work, same
	}
	for i := range work {
		d.out = append(d.out, d.written(&work[i], work[i].Event))
	}
	return d.out[start:], same
}

// written is a record as the sink sees it. What was redriven is of the topic that
// it failed in, except for a sink that keeps offsets: it keeps those of the queue
// that it reads.
func (d *delivery) written(src *event.Record, e event.Event) event.Record {
	out := *src
	out.Event = withoutMark(e)
	if _, keeper := d.sink.(connectors.OffsetKeeper); keeper {
		return out
	}
	if mark, ok := letters.MarkOf(&src.Event); ok {
		if topic, _, ok := loop.SplitSlot(mark.Slot); ok {
			out.Topic = topic
		}
	}
	return out
}

func withoutMark(e event.Event) event.Event {
	if len(e.Ext) == 0 {
		return e
	}
	if _, ok := loop.Ext(&e, letters.ExtRedrive); !ok {
		return e
	}
	return e.With(event.Attr{Name: letters.ExtRedrive})
}

// rewrite tries the held records of a lane again.
func (d *delivery) rewrite(ctx context.Context, l *lane) error {
	if d.pending.since.IsZero() {
		d.pending.since = time.Now()
	}
	now := l.held
	l.held = nil
	if l.given != nil {
		for i := range now {
			if err := d.giveUp(ctx, l, &now[i].src, now[i].err, loop.StepOf(now[i].err)); err != nil {
				return err
			}
		}
		d.moved(l)
		return nil
	}
	if err := d.t.Held(); err != nil { // Invariant 11
		return err
	}
	outs := make([]event.Record, len(now))
	work := make([]event.Record, len(now))
	for i := range now {
		outs[i], work[i] = now[i].out, now[i].src
		outs[i].Attempt += l.failed
	}
	err := d.sink.Write(ctx, outs)
	d.pending.records += len(outs)
	failed, ok := asBatchError(err)
	if err != nil && !ok {
		l.held = now
		return d.batchFailed(ctx, l, err, work)
	}
	bad := map[int]bool{}
	for i := range now {
		if ferr := failed[i]; ferr != nil {
			bad[i] = true
			now[i].err = ferr
			if err := d.refused(ctx, l, now[i]); err != nil {
				return err
			}
		}
	}
	if len(l.held) > 0 {
		d.failed(l, l.held[0].err, 1, &l.held[0].src)
	} else {
		d.moved(l)
	}
	return d.unpark(ctx, l, work, bad)
}

// unpark lets keys flow again whose last redriven letter was delivered, unless
// further letters of theirs came in meanwhile.
func (d *delivery) unpark(ctx context.Context, l *lane, work []event.Record, bad map[int]bool) error {
	if d.parks == nil || l.Policy.OnError != loop.ParkKey {
		return nil
	}
	for i := range work {
		rec := &work[i]
		slot, mark, ok := placeOf(l, rec)
		if !ok || !mark.Last || bad[i] || rec.Key == "" {
			continue
		}
		k, err := d.parks.Get(ctx, slot, rec.Key)
		if err != nil {
			return err
		}
		if k == nil {
			continue
		}
		more, err := d.hasLetters(ctx, l, letters.Target{Group: d.t.Group, Slot: slot, Key: rec.Key})
		if err != nil {
			return err
		}
		if !more {
			d.parks.Clear(slot, rec.Key)
		}
	}
	return nil
}

// hasLetters reports whether dead letters of a target's key are left, those of
// the next batch included.
func (d *delivery) hasLetters(ctx context.Context, l *lane, target letters.Target) (bool, error) {
	prefix := target.Text() + "@"
	for _, w := range d.w.Used() {
		if w.Topic == l.Policy.Dead && slices.ContainsFunc(w.Links, func(k bus.Link) bool { return strings.HasPrefix(k.Key, prefix) }) {
			return true, nil
		}
	}
	recs, err := d.client.Scan(ctx, l.Policy.Dead, prefix, "", 1)
	return len(recs) > 0, err
}
