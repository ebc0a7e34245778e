package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"millrace/bus/event"
	"millrace/schemas/spec"
)

// Error is an error with an HTTP status. Field names what is wrong in the
// request, where one thing is.
type Error struct {
	Status int
	Field  string
	Msg    string
	// RetryAfter, when not 0, tells the client how long to wait.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Msg }

// Fail makes an Error of any status, whose message begins with the field.
func Fail(status int, field, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if field != "" {
		msg = field + ": " + msg
	}
	return &Error{Status: status, Field: field, Msg: msg}
}

// At puts the place of a part of a request, such as "resources[0].spec", before
// the field that an error names.
func At(path string, err error) error {
	var field, msg string
	status := http.StatusBadRequest
	if se, ok := errors.AsType[*spec.Error](err); ok && len(se.Problems) > 0 {
		field, msg = se.Problems[0].Path, se.Problems[0].Msg
	} else if fe, ok := errors.AsType[*event.FieldError](err); ok {
		field, msg = fe.Field, fe.Problem
	} else if re, ok := errors.AsType[*Error](err); ok {
		field, status = re.Field, re.Status
		msg = strings.TrimPrefix(re.Msg, re.Field+": ")
	} else {
		return err
	}
	return Fail(status, Join(path, field), "%s", msg)
}

// Join puts a path before a field.
func Join(path, field string) string {
	switch {
	case path == "":
		return field
	case field == "":
		return path
	case field[0] == '[':
		return path + field
	default:
		return path + "." + field
	}
}

// Bad is a 400 that names a field.
func Bad(field, format string, args ...any) error {
	return Fail(http.StatusBadRequest, field, format, args...)
}

// Of is a Fail whose message names the thing itself, so that field is not put
// before it.
func Of(status int, field, format string, args ...any) error {
	return &Error{Status: status, Field: field, Msg: fmt.Sprintf(format, args...)}
}

// NotFound is a 404.
func NotFound(format string, args ...any) error {
	return Fail(http.StatusNotFound, "", format, args...)
}

// Conflict is a 409.
func Conflict(format string, args ...any) error {
	return Fail(http.StatusConflict, "", format, args...)
}
