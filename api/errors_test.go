package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"millrace/api/rest"
	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
	"millrace/schemas/spec"
)

// TestProblems: what each kind of error becomes.
func TestProblems(t *testing.T) {
	t.Parallel()
	of := func(kind error) error { return &bus.Error{Kind: kind, Thing: "topic t", Field: "f", Msg: "m"} }
	for _, c := range []struct {
		err    error
		status int
		field  string
		retry  string
	}{
		{of(bus.ErrNoTopic), 404, "f", ""},
		{of(bus.ErrConflict), 409, "f", ""},
		{of(bus.ErrInUse), 409, "f", ""},
		{of(bus.ErrInvalid), 400, "f", ""},
		{of(bus.ErrTooLarge), 413, "f", ""},
		{of(bus.ErrUnsupported), 501, "f", ""},
		{of(bus.ErrFull), 507, "f", ""},
		{of(bus.ErrCorrupt), 503, "f", "1"},
		{of(bus.ErrUnknown), 503, "f", "1"},
		{of(bus.ErrClosed), 503, "f", "1"},
		{of(bus.ErrFenced), 409, "f", ""},
		{fmt.Errorf("wrapped: %w", of(bus.ErrInUse)), 409, "f", ""},
		{context.DeadlineExceeded, 504, "", ""},
		{&connectors.HTTPError{Status: 401, Field: "X-Sig", Msg: "is wrong"}, 401, "X-Sig", ""},
		{&event.FieldError{Field: "[3].source", Problem: "is required"}, 400, "[3].source", ""},
		{&spec.Error{Problems: []spec.Problem{{Path: "path", Msg: "is required"}}}, 400, "path", ""},
		{&rest.Error{Status: 429, Msg: "later", RetryAfter: 1500 * time.Millisecond}, 429, "", "2"},
		{errors.New("a fault"), 500, "", ""},
	} {
		p, retry := problemOf(c.err)
		if p.Code != c.status || p.Field != c.field || retry != c.retry || p.Message == "" {
			t.Errorf("%v became %+v, retry %q", c.err, p, retry)
		}
	}
}

// TestNotReady: a node whose own check fails says so, and still answers.
func TestNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{Health: func(context.Context) error { return errors.New("the disk is slow") }})
	for target, status := range map[string]int{"/healthz": 200, "/readyz": 503, "/health": 503, "/topics": 200} {
		rec := w.do(http.MethodGet, target, nil, "")
		if rec.Code != status || status == 503 && !strings.Contains(rec.Body.String(), "the disk is slow") {
			t.Errorf("%s: status %d: %s", target, rec.Code, rec.Body)
		}
	}
}
