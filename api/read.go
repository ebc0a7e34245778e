package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/bus"
	"millrace/bus/event"
)

const (
	maxLimit = 1000
	maxWait  = time.Minute
)

// getEvents browses a topic, or streams it where the client accepts an event
// stream.
func (s *Server) getEvents(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	limit, err := r.Int("limit", 100, 1, maxLimit)
	if err != nil {
		return rest.Answer{}, err
	}
	wait, err := r.Wait("wait", maxWait)
	if err != nil {
		return rest.Answer{}, err
	}
	queue, err := r.Int("queue", -1, 0, 1<<31-1)
	if err != nil {
		return rest.Answer{}, err
	}
	stream := wantsStream(r.Header)
	from := r.Query.Get("from")
	if !r.Query.Has("from") {
		from = "earliest"
		if stream {
			from = "latest"
		}
	}
	p, err := desired.ParsePlace("from", from)
	if err != nil {
		return rest.Answer{}, err
	}
	topic, err := s.topic(ctx, r.Params["topic"])
	if err != nil {
		return rest.Answer{}, err
	}
	cursors, err := s.cursors(ctx, topic, queue, p)
	if err != nil {
		return rest.Answer{}, err
	}
	if stream {
		return s.stream(r, topic, cursors)
	}
	ctx, cancel := s.untilStop(ctx)
	defer cancel()
	hold := holder{budget: &s.answers}
	body, err := page(ctx, newMerge(s.client, topic, cursors, limit), limit, wait, &hold)
	if err != nil {
		hold.release()
		if errors.Is(err, bus.ErrNoTopic) {
			err = desired.NoTopic(topic.Name)
		}
		return rest.Answer{}, err
	}
	// It counts until the client has taken it. Invariant 10.
	return rest.Answer{Stream: func(_ context.Context, w http.ResponseWriter) error {
		defer hold.release()
		w.Header().Set("Content-Type", "application/json")
		out := sse{w: w, ctl: http.NewResponseController(w)}
		for len(body) > 0 && out.send(body[:min(len(body), answerPiece)]) == nil {
			body = body[min(len(body), answerPiece):]
		}
		return nil
	}}, nil
}

// answerPiece is how much of an answer has to be taken within one deadline.
const answerPiece = 1 << 20

// holder is one answer's share of a budget.
type holder struct {
	budget *budget
	n      int64
}

func (h *holder) take(n int64) bool {
	if !h.budget.take(n) {
		return false
	}
	h.n += n
	return true
}

func (h *holder) release() {
	h.budget.give(h.n)
	h.n = 0
}

// footprint is about what a record takes as it is and as JSON.
func footprint(r *event.Record) int64 { return 2*int64(len(r.Data)) + 1024 }

// wantsStream reports whether a client asks for server-sent events.
func wantsStream(h http.Header) bool {
	return strings.Contains(h.Get("Accept"), "text/event-stream")
}

// cursors finds the place in the wanted queue, or in all of them when queue is
// -1; a queue that the topic does not have gives none.
func (s *Server) cursors(ctx context.Context, topic bus.Topic, queue int, p desired.Place) ([]bus.Cursor, error) {
	bounds, err := s.client.Bounds(ctx, topic.Name)
	if err != nil {
		return nil, err
	}
	var out []bus.Cursor
	for _, b := range bounds {
		if queue >= 0 && b.Queue != queue {
			continue
		}
		next, err := desired.OffsetOf(ctx, s.client, topic.Name, b, p)
		if err != nil {
			return nil, err
		}
		out = append(out, bus.Cursor{Topic: topic.Name, ID: topic.ID, Queue: b.Queue, Next: next})
	}
	return out, nil
}

// page reads one answer: at most limit records, cut at maxAnswer bytes unless
// the first alone is larger; it waits for the first one only.
func page(ctx context.Context, m *merge, limit int, wait time.Duration, hold *holder) ([]byte, error) {
	out := []byte{'['}
	for n := 0; n < limit && len(m.queues) > 0; {
		r, ok, err := m.next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			if n > 0 || wait == 0 {
				break
			}
			if _, err := m.wait(ctx, wait); err != nil {
				return nil, err
			}
			wait = 0
			continue
		}
		if !hold.take(footprint(&r)) {
			if n > 0 {
				break
			}
			return nil, rest.Fail(http.StatusTooManyRequests, "", "too many answers wait to be taken by their readers: try again, or read less at once")
		}
		before := len(out)
		if n > 0 {
			out = append(out, ',')
		}
		out = event.AppendRecordJSON(out, &r)
		if n > 0 && len(out) >= maxAnswer {
			out = out[:before]
			break
		}
		n++
	}
	return append(out, ']', '\n'), nil
}

// A token is the id of a server-sent event: the topic's incarnation and, for each
// queue, the offset to go on from.

func formatToken(topic bus.Topic, places []bus.Cursor) string {
	b := strconv.AppendUint(nil, topic.ID, 36)
	for _, p := range places {
		b = append(b, '.')
		b = strconv.AppendInt(b, int64(p.Queue), 36)
		b = append(b, '-')
		b = strconv.AppendInt(b, p.Next, 36)
	}
	return string(b)
}

// resume moves the cursors to where a token stands. A token of another
// incarnation of the topic starts at the earliest.
func resume(topic bus.Topic, cursors []bus.Cursor, token string) error {
	bad := rest.Bad("Last-Event-ID", "is not an id that this stream has sent")
	parts := strings.Split(token, ".")
	id, err := strconv.ParseUint(parts[0], 36, 64)
	if err != nil {
		return bad
	}
	at := make(map[int]int64, len(parts))
	for _, part := range parts[1:] {
		q, n, _ := strings.Cut(part, "-")
		queue, err1 := strconv.ParseUint(q, 36, 31)
		next, err2 := strconv.ParseInt(n, 36, 64)
		if err1 != nil || err2 != nil || next < 0 {
			return bad
		}
		at[int(queue)] = next
	}
	for i := range cursors {
		if id != topic.ID {
			cursors[i].Next = 0
		} else if next, ok := at[cursors[i].Queue]; ok {
			cursors[i].Next = next
		}
	}
	return nil
}
