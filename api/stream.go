package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"millrace/api/rest"
	"millrace/bus"
	"millrace/bus/event"
)

const (
	heartbeat   = 15 * time.Second
	streamAhead = 256 // records read ahead of one client
	streamPiece = 64 << 10
)

// stream answers with server-sent events: one structured event each, its id a
// token that Last-Event-ID resumes from. It reads on only when the socket has
// taken what was read before, so a slow client holds no more than one piece in
// memory (Invariant 10), and it ends with the client or the server.
func (s *Server) stream(r *rest.Request, topic bus.Topic, cursors []bus.Cursor) (rest.Answer, error) {
	if token := r.Header.Get("Last-Event-ID"); token != "" {
		if err := resume(topic, cursors, token); err != nil {
			return rest.Answer{}, err
		}
	}
	m := newMerge(s.client, topic, cursors, streamAhead)
	m.piece.Bytes = max(maxAnswer/8/max(len(cursors), 1), 16<<10)
	return rest.Answer{Stream: func(ctx context.Context, w http.ResponseWriter) error {
		ctx, cancel := s.untilStop(ctx)
		defer cancel()
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no")
		out := sse{w: w, ctl: http.NewResponseController(w)}
		w.WriteHeader(http.StatusOK)
		err := out.send([]byte(": stream of " + topic.Name + "\n\n"))
		if err == nil {
			err = s.follow(ctx, m, &out)
		}
		switch {
		case ctx.Err() != nil, out.broken:
			return nil // the client or the server ends it
		case errors.Is(err, bus.ErrNoTopic):
			return out.send([]byte("event: end\ndata: the topic was deleted\n\n"))
		default:
			s.log.Warn("event stream ended", "topic", topic.Name, "error", err)
			return nil
		}
	}}, nil
}

// follow sends records until something fails. It gathers a piece before it sends,
// unless nothing more is there.
func (s *Server) follow(ctx context.Context, m *merge, out *sse) error {
	var buf []byte
	for {
		r, ok, err := m.next(ctx)
		if err != nil {
			return err
		}
		if need := footprint(&r); ok && need > streamPiece {
			if err := s.sendLarge(ctx, m, out, &buf, &r, need); err != nil {
				return err
			}
			continue
		}
		if ok {
			buf = fmt.Appendf(buf, "id: %s\ndata: ", formatToken(m.topic, m.places()))
			buf = event.AppendRecordJSON(buf, &r)
			buf = append(buf, '\n', '\n')
			if len(buf) < streamPiece {
				continue
			}
		}
		if len(buf) > 0 {
			if err := out.send(buf); err != nil {
				return err
			}
			buf = buf[:0]
			continue
		}
		more, err := m.wait(ctx, s.heartbeat)
		if err != nil {
			return err
		}
		if !more {
			buf = append(buf, ": heartbeat\n\n"...)
		}
	}
}

// sendLarge sends what was gathered, then one large record once the budget of
// all answers has room for it. Invariant 10.
func (s *Server) sendLarge(ctx context.Context, m *merge, out *sse, buf *[]byte, r *event.Record, need int64) error {
	if len(*buf) > 0 {
		if err := out.send(*buf); err != nil {
			return err
		}
		*buf = (*buf)[:0]
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !s.answers.take(min(need, s.answers.most)) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer s.answers.give(min(need, s.answers.most))
	big := fmt.Appendf(nil, "id: %s\ndata: ", formatToken(m.topic, m.places()))
	big = event.AppendRecordJSON(big, r)
	big = append(big, '\n', '\n')
	for len(big) > 0 {
		n := min(len(big), answerPiece)
		if err := out.send(big[:n]); err != nil {
			return err
		}
		big = big[n:]
	}
	return nil
}

// sse writes pieces of a stream, each flushed and within its own deadline.
type sse struct {
	w      http.ResponseWriter
	ctl    *http.ResponseController
	broken bool // the client is gone
}

func (o *sse) send(b []byte) error {
	o.ctl.SetWriteDeadline(time.Now().Add(writeDeadline)) //nolint:errcheck // a writer without deadlines is bounded by its own server
	_, err := o.w.Write(b)
	if err == nil {
		err = o.ctl.Flush()
	}
	o.broken = err != nil
	return err
}
