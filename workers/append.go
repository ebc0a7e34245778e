package workers

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"millrace/bus"
)

// appender stores batches for one loop. It retries what may pass, always under
// the same id, so that a batch whose answer was lost is stored once. Invariant 2.
type appender struct {
	client bus.Client
	log    *slog.Logger
	random func() float64
	prefix string // unique to this run of the loop
	n      uint64
}

func newAppender(client bus.Client, log *slog.Logger, random func() float64) *appender {
	return &appender{client: client, log: log, random: random, prefix: rand.Text() + "-"}
}

// put stores b. It returns only errors that end the loop's run (see ends);
// whatever may pass is tried again until ctx ends.
func (a *appender) put(ctx context.Context, b *bus.Batch) error {
	a.n++
	b.ID = a.prefix + strconv.FormatUint(a.n, 36)
	for failed := 0; ; {
		_, err := a.client.Append(ctx, *b)
		if err == nil || ends(ctx, err) {
			return err
		}
		if failed == 0 {
			a.log.Warn("append is tried again", "error", err)
		}
		failed++
		if err := wait(ctx, appendRetry.at(failed)+time.Duration(a.random()*float64(50*time.Millisecond))); err != nil {
			return err
		}
	}
}

var appendRetry = schedule{tries: -1, delay: 50 * time.Millisecond, max: 5 * time.Second, factor: 2}

// wait sleeps for d or until ctx ends, whose error it then returns.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// ensureTopic makes a topic unless it is there, whatever its settings.
func ensureTopic(ctx context.Context, client bus.Client, t bus.Topic) (bus.Topic, error) {
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
