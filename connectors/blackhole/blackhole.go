// Package blackhole takes events and forgets them: for load, and for tests of
// slow and failing targets.
package blackhole

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
)

type config struct {
	Delay     time.Duration `json:"delay" doc:"How long every write takes." default:"0s" spec:"max=1h"`
	FailEvery int           `json:"fail.every" doc:"Fails the first try of every so-manieth event, by its offset; 0 fails none." default:"0" spec:"min=0"`
	Permanent bool          `json:"fail.permanent" doc:"Whether those fail at every try, and are marked so that none is tried again." default:"false"`
}

// Plugin is the blackhole sink.
func Plugin() connectors.Plugin {
	sink := connectors.SinkOf(func(_ context.Context, c config, env connectors.Env) (connectors.Sink, error) {
		return &sink{cfg: c, log: env.Logger, tried: map[place]bool{}}, nil
	})
	sink.Guarantee = "Keeps nothing. Every event is given to it at least once."
	return connectors.Plugin{
		Name:    "blackhole",
		Summary: "Takes events and forgets them, as slowly and as faultily as asked: for load and tests.",
		Docs: "Events are counted; the count is logged when the sink closes. An event fails when its offset + 1 is a multiple of `fail.every`, so the same events " +
			"fail in every run.\n",
		Sink: sink,
	}
}

// place is where a record stands.
type place struct {
	topic  string
	queue  int
	offset int64
}

type sink struct {
	cfg   config
	log   *slog.Logger
	taken int64
	tried map[place]bool // failed once; the next try passes
}

// Write forgets the records, except those that are to fail.
func (s *sink) Write(ctx context.Context, records []event.Record) error {
	if s.cfg.Delay > 0 {
		timer := time.NewTimer(s.cfg.Delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
	}
	var failed map[int]error
	for i := range records {
		err := s.fate(&records[i])
		if err == nil {
			s.taken++
			continue
		}
		if failed == nil {
			failed = map[int]error{}
		}
		failed[i] = err
	}
	if failed != nil {
		return &connectors.BatchError{Failed: failed}
	}
	return nil
}

func (s *sink) fate(r *event.Record) error {
	every := int64(s.cfg.FailEvery)
	if every == 0 || (r.Offset+1)%every != 0 {
		return nil
	}
	err := fmt.Errorf("fail.every: offset %d fails because %d is a multiple of %d", r.Offset, r.Offset+1, every)
	if s.cfg.Permanent {
		return connectors.Permanent(err)
	}
	at := place{r.Topic, r.Queue, r.Offset}
	if s.tried[at] {
		delete(s.tried, at)
		return nil
	}
	s.tried[at] = true
	return err
}

// Flush has nothing to do.
func (s *sink) Flush(ctx context.Context) error { return ctx.Err() }

// Close logs how many events were taken.
func (s *sink) Close() error {
	if s.log != nil {
		s.log.Info("blackhole closed", "events", s.taken)
	}
	return nil
}
