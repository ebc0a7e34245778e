package bus

import (
	"errors"
	"fmt"
)

// What a caller can branch on. Every error of a Client wraps one of these, a
// context's error, or is a fault of the machine.
var (
	ErrNoTopic     = errors.New("no such topic")
	ErrConflict    = errors.New("exists with other settings")
	ErrInUse       = errors.New("in use")
	ErrInvalid     = errors.New("invalid")
	ErrFenced      = errors.New("not the owner any more")
	ErrNoMember    = errors.New("not a member any more")
	ErrTooLarge    = errors.New("too large")
	ErrUnsupported = errors.New("not supported by this engine")
	ErrCorrupt     = errors.New("corrupt log")
	ErrFull        = errors.New("disk full")
	ErrClosed      = errors.New("bus closed")
	// ErrUnknown: the answer to an append was lost. It may be stored; try again with
	// the same Batch.ID.
	ErrUnknown = errors.New("outcome unknown")
)

// Error names the thing, and where there is one the field, that an operation
// failed on. Kind is one of the Err… values.
type Error struct {
	Kind  error
	Thing string // such as "topic orders" or "group connect-es slot orders/3"
	Field string // such as "queues"; may be empty
	Msg   string // what is wrong and how to mend it
}

func (e *Error) Error() string {
	s := e.Thing
	if e.Field != "" {
		s = fmt.Sprintf("%s: %s", s, e.Field)
	}
	if e.Msg == "" {
		return s + ": " + e.Kind.Error()
	}
	return s + ": " + e.Msg
}

// Unwrap gives the kind to errors.Is.
func (e *Error) Unwrap() error { return e.Kind }
