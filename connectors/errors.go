package connectors

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// BatchError says which records of a Write failed (index in the batch → why).
// All others were taken.
type BatchError struct{ Failed map[int]error }

func (e *BatchError) Error() string {
	idx := make([]int, 0, len(e.Failed))
	for i := range e.Failed {
		idx = append(idx, i)
	}
	if len(idx) == 0 {
		return "0 records failed"
	}
	first := slices.Min(idx)
	return fmt.Sprintf("%d records failed, the first (%d): %v", len(idx), first, e.Failed[first])
}

// permanentError marks an error that a retry would meet again.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err: trying again cannot help, so the record goes where its
// onError says at once.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err is marked so.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// RetryError asks for a pause before the next try, as a target's Retry-After does.
type RetryError struct {
	After time.Duration
	Err   error
}

func (e *RetryError) Error() string { return fmt.Sprintf("%v (retry after %s)", e.Err, e.After) }

// Unwrap gives the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// maxRetryAfter bounds what a target can ask for.
const maxRetryAfter = time.Hour

// RetryAfter reads the HTTP header Retry-After: seconds or a date, cut at an hour.
// asked is false where there is none to read.
func RetryAfter(header string, now time.Time) (after time.Duration, asked bool) {
	if seconds, err := strconv.ParseInt(header, 10, 64); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}
