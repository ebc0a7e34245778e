package deliver

import (
	"context"
	"fmt"
	"time"

	"millrace/bus/event"
	"millrace/workers/letters"
	"millrace/workers/loop"
)

// failed notes that n records of a lane, rec among them, could not be delivered.
func (d *delivery) failed(l *lane, err error, n int, rec *event.Record) {
	if d.def.Log || l.failed == 0 && !l.isolating() {
		d.t.Log.Warn("delivery failed", "slot", l.slot, "offset", rec.Offset, "events", n, "error", err)
	}
	d.t.Counters.Retries.Add(1)
	l.failure(err, n, rec, time.Now(), d.t.Random())
	if l.blocked && n == 1 {
		d.t.Report(fmt.Errorf("blocked at %s/%d (event %s): %w", l.slot, rec.Offset, rec.ID, err))
	}
}

// batchFailed notes that a write failed as a whole, and ends the session: the
// sink is opened again and its lanes go back to their checkpoints.
func (d *delivery) batchFailed(ctx context.Context, l *lane, err error, work []event.Record) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	d.failed(l, err, len(work), &work[0])
	return errReopen
}

// moved notes that a lane got past what had failed.
func (d *delivery) moved(l *lane) {
	l.passed()
	if !l.blocked {
		return
	}
	l.blocked = false
	for _, other := range d.lanes {
		if other.blocked {
			return
		}
	}
	d.t.Report(nil)
}

// giveUp puts a record into the dead letters, with the next batch. Where its key
// is parked by that, what follows of it goes there too. Invariants 4 and 6.
func (d *delivery) giveUp(ctx context.Context, l *lane, rec *event.Record, err error, step string) error {
	if !l.hasDead {
		if err := letters.Ensure(ctx, d.client, l.Policy.Dead); err != nil {
			return err
		}
		l.hasDead = true
	}
	slot, mark, _ := placeOf(l, rec)
	from := letters.Target{Group: d.t.Group, Slot: slot, Key: rec.Key}
	*d.w.Link(l.Policy.Dead) = letters.Link(rec, d.t.Origin(rec), from, step, err)
	d.t.Counters.Dead.Add(1)
	if d.def.Log && step != letters.StepParked {
		d.t.Log.Warn("event dead-lettered", "slot", l.slot, "offset", rec.Offset, "event", rec.ID, "step", step, "error", err)
	}
	if l.Policy.OnError != loop.ParkKey || rec.Key == "" || step == letters.StepParked {
		return nil
	}
	if _, err := d.parks.Get(ctx, slot, rec.Key); err != nil {
		return err
	}
	d.parks.Set(slot, rec.Key, mark.Round)
	return nil
}
