package elasticsearch

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
)

type sink struct {
	cfg    config
	client *http.Client
	log    *slog.Logger
	now    func() time.Time
	at     int // the URL that answered last
}

func open(_ context.Context, cfg config, env connectors.Env) (connectors.Sink, error) {
	dialer := &net.Dialer{Timeout: min(cfg.Timeout, 10*time.Second)}
	s := &sink{cfg: cfg, log: env.Logger, now: env.Now, client: &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 2,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: min(cfg.Timeout, 10*time.Second), MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// errBehind fails an event that a failed one of the same document comes before.
var errBehind = errors.New("an earlier event of this document failed")

// write is one call of Write on its way.
type write struct {
	body   []byte
	ops    []operation
	failed map[int]error // by record
	// order keeps documents without a version right: what was written behind a
	// failed operation on it is written again, behind its next try.
	stuck map[document]bool
}

type document struct{ index, id string }

// Write sends the records in bulk requests, in order. Behind one that says that
// the target is out of reach or busy, all fail. Invariant 4.
func (s *sink) Write(ctx context.Context, records []event.Record) error {
	w := &write{failed: map[int]error{}, stuck: map[document]bool{}}
	places := map[document]*event.Record{}
	var all error // why everything from here on fails
	for i := range records {
		if all != nil {
			w.failed[i] = all
			continue
		}
		body, op, ok, err := s.cfg.prepare(w.body, &records[i])
		switch {
		case err != nil:
			w.failed[i] = connectors.Permanent(err)
			continue
		case !ok:
			continue
		}
		doc := document{op.index, op.id}
		if before := places[doc]; before != nil && sameRecord(before, &records[i]) && before.ID != records[i].ID {
			w.failed[i] = errSame
			continue
		}
		places[doc] = &records[i]
		op.record = i
		if len(w.ops) > 0 && (len(w.ops) >= s.cfg.BatchSize || len(body) > int(s.cfg.BulkBytes)) {
			own := append([]byte(nil), body[op.at:]...)
			if all = s.flush(ctx, w); all != nil {
				w.failed[i] = all
				continue
			}
			op.at, op.end, body = 0, len(own), own
		}
		w.body, w.ops = body, append(w.ops, op)
	}
	if all == nil {
		all = s.flush(ctx, w)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if all != nil && len(w.failed) == len(records) {
		return all
	}
	if len(w.failed) > 0 {
		return &connectors.BatchError{Failed: w.failed}
	}
	return nil
}

// sameRecord reports whether two events were made from one.
func sameRecord(a, b *event.Record) bool {
	return a.Origin == b.Origin && a.Topic == b.Topic && a.Queue == b.Queue && a.Offset == b.Offset
}

// flush sends the operations gathered. An error is one of the target; it holds for
// what follows too.
func (s *sink) flush(ctx context.Context, w *write) error {
	if len(w.ops) == 0 {
		return ctx.Err()
	}
	err := s.send(ctx, w, w.ops)
	w.body, w.ops = nil, w.ops[:0] // the transport may read the old body after its answer
	return err
}

// send makes one request of operations that stand side by side in w.body, or
// several of them where the target wants them smaller.
func (s *sink) send(ctx context.Context, w *write, ops []operation) error {
	answer, err := s.post(ctx, w.body[ops[0].at:ops[len(ops)-1].end])
	if refused, ok := errors.AsType[*refusedError](err); ok {
		if len(ops) == 1 {
			w.failed[ops[0].record] = connectors.Permanent(refused)
			return nil
		}
		half := len(ops) / 2
		if err = s.send(ctx, w, ops[:half]); err == nil {
			return s.send(ctx, w, ops[half:])
		}
		for i := range ops[half:] {
			w.failed[ops[half+i].record] = err
		}
		return err
	}
	if err == nil && len(answer) != len(ops) {
		err = errItems
	}
	if err != nil {
		for i := range ops {
			w.failed[ops[i].record] = err
		}
		return err
	}
	for i := range ops {
		s.settle(w, &ops[i], &answer[i])
	}
	return nil
}

// settle notes what became of one operation.
func (s *sink) settle(w *write, op *operation, r *result) {
	err := r.judge(op)
	doc := document{op.index, op.id}
	switch {
	case op.version > 0: // a later try undoes nothing
	case err != nil:
		w.stuck[doc] = true
	case w.stuck[doc]:
		err = errBehind
	}
	if err != nil {
		w.failed[op.record] = err
	}
}

// Flush has nothing to do: what was answered as done is durable.
func (s *sink) Flush(ctx context.Context) error { return ctx.Err() }

// Close drops idle connections.
func (s *sink) Close() error {
	s.client.CloseIdleConnections()
	return nil
}
