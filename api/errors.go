package api

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"millrace/api/rest"
	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
	"millrace/schemas/spec"
)

// problem is the body of every error.
type problem struct {
	Code    int    `json:"error_code"`
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

// statusClientClosed is written to the log only: nobody is there to read it.
const statusClientClosed = 499

// problemOf is the one place where errors become statuses.
func problemOf(err error) (p problem, retryAfter string) {
	var (
		re *rest.Error
		he *connectors.HTTPError
		fe *event.FieldError
		se *spec.Error
		be *bus.Error
		ee *echo.HTTPError
	)
	switch {
	case errors.As(err, &re):
		if re.RetryAfter > 0 {
			retryAfter = strconv.Itoa(int(math.Ceil(re.RetryAfter.Seconds())))
		}
		return problem{re.Status, re.Error(), re.Field}, retryAfter
	case errors.As(err, &he):
		return problem{he.Status, he.Error(), he.Field}, ""
	case errors.As(err, &fe):
		return problem{http.StatusBadRequest, fe.Error(), fe.Field}, ""
	case errors.As(err, &se):
		field := ""
		if len(se.Problems) > 0 {
			field = se.Problems[0].Path
		}
		return problem{http.StatusBadRequest, se.Error(), field}, ""
	case errors.As(err, &ee):
		return problem{ee.Code, http.StatusText(ee.Code), ""}, ""
	}
	p = problem{statusOfKind(err), err.Error(), ""}
	if errors.As(err, &be) {
		p.Field = be.Field
	}
	if p.Code == http.StatusServiceUnavailable {
		retryAfter = "1"
	}
	return p, retryAfter
}

// statusOfKind is the status for what a Client answers; the first match wins.
func statusOfKind(err error) int {
	for _, s := range []struct {
		kind   error
		status int
	}{
		{bus.ErrNoTopic, http.StatusNotFound},
		{bus.ErrConflict, http.StatusConflict},
		{bus.ErrInUse, http.StatusConflict},
		{bus.ErrInvalid, http.StatusBadRequest},
		{bus.ErrTooLarge, http.StatusRequestEntityTooLarge},
		{bus.ErrFull, http.StatusInsufficientStorage},
		{bus.ErrUnsupported, http.StatusNotImplemented},
		{bus.ErrFenced, http.StatusConflict},
		{bus.ErrNoMember, http.StatusConflict},
		{bus.ErrUnknown, http.StatusServiceUnavailable},
		{bus.ErrCorrupt, http.StatusServiceUnavailable},
		{bus.ErrClosed, http.StatusServiceUnavailable},
		{context.DeadlineExceeded, http.StatusGatewayTimeout},
		{context.Canceled, statusClientClosed},
		{fs.ErrNotExist, http.StatusNotFound},
	} {
		if errors.Is(err, s.kind) {
			return s.status
		}
	}
	return http.StatusInternalServerError
}

// writeError answers with err, unless the answer has begun.
func (s *Server) writeError(c echo.Context, err error) {
	p, retry := problemOf(err)
	if p.Code >= http.StatusInternalServerError && p.Code != http.StatusNotImplemented {
		s.log.Error("request failed", "method", c.Request().Method, "path", c.Request().URL.Path, "status", p.Code, "error", err)
	}
	if c.Response().Committed || p.Code == statusClientClosed {
		return
	}
	h := c.Response().Header()
	if retry != "" {
		h.Set("Retry-After", retry)
	}
	switch p.Code {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusNotFound:
		if p.Message == http.StatusText(http.StatusNotFound) {
			p.Message = "there is nothing at " + c.Request().Method + " " + c.Request().URL.Path + "; see /openapi.yaml"
		}
	case http.StatusMethodNotAllowed:
		p.Message = c.Request().Method + " is not done here; allowed: " + h.Get("Allow")
	}
	if err := answer(c.Request().Context(), c.Response(), rest.Answer{Status: p.Code, Body: p}); err != nil {
		s.log.Error("error cannot be shown", "error", err)
	}
}
