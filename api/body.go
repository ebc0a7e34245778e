package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"millrace/api/rest"
)

const (
	maxBody      = 1 << 20         // bodies of all routes but events
	bodyDeadline = 2 * time.Minute // for one body to arrive
	firstPiece   = 64 << 10
)

// budget counts the bytes of request bodies held at one time in the whole
// server. Invariant 10.
type budget struct {
	most int64
	used atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.most {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// readBody reads a request's body, at most limit bytes of it, and takes what it
// holds from the budget as it arrives; release gives it back. It never holds
// more than the limit and one byte, whatever the client announces or sends.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, release func(), err error) {
	tooLarge := func() error {
		return rest.Of(http.StatusRequestEntityTooLarge, "body", "the body is larger than the limit of %d bytes (%s)", limit, mebibytes(limit))
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, nil, rest.Fail(http.StatusUnsupportedMediaType, "Content-Encoding", "%q is not taken: send the body as it is", enc)
	}
	if r.ContentLength > limit {
		return nil, nil, tooLarge()
	}
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil, func() {}, nil
	}
	ctl := http.NewResponseController(w)
	if err := ctl.SetReadDeadline(time.Now().Add(bodyDeadline)); err == nil {
		defer ctl.SetReadDeadline(time.Time{}) //nolint:errcheck // it worked a moment ago; a broken connection shows in the next read
	}

	var held int64
	release = func() { s.bodies.give(held) }
	grow := func(size int64) error {
		if !s.bodies.take(size) {
			return s.fullOfBodies()
		}
		held += size
		next := make([]byte, len(body), size)
		copy(next, body)
		s.bodies.give(held - size)
		held = size
		body = next
		return nil
	}
	want := limit + 1 // one more byte tells a body at the limit from one beyond it
	if r.ContentLength > 0 {
		want = r.ContentLength + 1
	}
	for {
		if len(body) == cap(body) {
			if err := grow(min(max(firstPiece, 2*int64(cap(body))), want)); err != nil {
				release()
				return nil, nil, err
			}
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			release()
			return nil, nil, tooLarge()
		case errors.Is(err, io.EOF):
			return body, release, nil
		case err != nil:
			release()
			return nil, nil, bodyError(r.Context(), err)
		}
	}
}

func (s *Server) fullOfBodies() error {
	return &rest.Error{
		Status: http.StatusTooManyRequests, RetryAfter: time.Second,
		Msg: fmt.Sprintf("the server holds as much of request bodies as it may, %s: try again in a moment", mebibytes(s.bodies.most)),
	}
}

func bodyError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return rest.Bad("", "the body ends in the middle: %v", err)
}

func mebibytes(n int64) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
