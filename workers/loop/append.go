package loop

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"millrace/bus"
)

// Appender stores batches for one run of a loop. It retries what may pass, always
// under the same id, so that a batch whose answer was lost is stored once.
// Invariant 2.
type Appender struct {
	t      *Task
	prefix string // unique to this run of the loop
	n      uint64
}

// NewAppender makes one for a run of t's loop.
func (t *Task) NewAppender() *Appender { return &Appender{t: t, prefix: rand.Text() + "-"} }

// Put stores b. It returns only errors that end the loop's run; whatever may pass
// is tried again until ctx ends.
func (a *Appender) Put(ctx context.Context, b *bus.Batch) error {
	retry := Schedule{Delay: 50 * time.Millisecond, Max: 5 * time.Second, Factor: 2}
	a.n++
	b.ID = a.prefix + strconv.FormatUint(a.n, 36)
	for failed := 0; ; {
		_, err := a.t.Client.Append(ctx, *b)
		if err == nil || ends(ctx, err) {
			return err
		}
		if failed == 0 {
			a.t.Log.Warn("append is tried again", "error", err)
		}
		failed++
		if err := Wait(ctx, retry.At(failed)+time.Duration(a.t.Random()*float64(50*time.Millisecond))); err != nil {
			return err
		}
	}
}

// ends reports errors of an append after which the loop cannot go on under its
// present slot or topics: it is run again from stored positions.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, bus.ErrFenced) || errors.Is(err, bus.ErrNoTopic) ||
		errors.Is(err, bus.ErrInvalid) || errors.Is(err, bus.ErrTooLarge) || errors.Is(err, bus.ErrConflict) ||
		errors.Is(err, bus.ErrUnsupported) || errors.Is(err, bus.ErrCorrupt) || errors.Is(err, bus.ErrClosed)
}

// Wait waits for d or until ctx ends, whose cause it then returns.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// EnsureTopic makes a topic unless it is there, whatever its settings.
func EnsureTopic(ctx context.Context, client bus.Client, t bus.Topic) (bus.Topic, error) {
	have, err := client.Topic(ctx, t.Name)
	if !errors.Is(err, bus.ErrNoTopic) {
		return have, err
	}
	have, err = client.CreateTopic(ctx, t)
	if errors.Is(err, bus.ErrConflict) { // made by another meanwhile
		return client.Topic(ctx, t.Name)
	}
	return have, err
}
