package rpc

import (
	"context"
	"encoding/json"
	"errors"

	"millrace/bus"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// ErrToken says that the server wants another token than this client has.
var ErrToken = errors.New("token missing or wrong")

// errLost marks an outcome that another try may better: the server was not
// reached, or its answer was lost.
var errLost = errors.New("connection lost")

// detailKey is the trailer with the error as JSON. An answer without it never
// came from our handlers.
const detailKey = "millrace-error-bin"

// kinds are the errors that keep their identity over the wire. The first that
// an error wraps is its kind.
func kinds() []kind {
	return []kind{
		{"unknown", bus.ErrUnknown, codes.Unknown},
		{"no_topic", bus.ErrNoTopic, codes.NotFound},
		{"conflict", bus.ErrConflict, codes.AlreadyExists},
		{"in_use", bus.ErrInUse, codes.FailedPrecondition},
		{"invalid", bus.ErrInvalid, codes.InvalidArgument},
		{"fenced", bus.ErrFenced, codes.Aborted},
		{"no_member", bus.ErrNoMember, codes.NotFound},
		{"too_large", bus.ErrTooLarge, codes.ResourceExhausted},
		{"unsupported", bus.ErrUnsupported, codes.Unimplemented},
		{"corrupt", bus.ErrCorrupt, codes.DataLoss},
		{"full", bus.ErrFull, codes.ResourceExhausted},
		{"closed", bus.ErrClosed, codes.Unavailable},
		{"deadline", context.DeadlineExceeded, codes.DeadlineExceeded},
		{"canceled", context.Canceled, codes.Canceled},
	}
}

type kind struct {
	name string
	err  error
	code codes.Code
}

// detail is an error on the wire.
type detail struct {
	Kind string `json:"kind,omitempty"` // one of kinds; "" = a fault of the machine
	Text string `json:"text"`           // the whole error
	// The fields of the *bus.Error in it, if there is one.
	Bus   bool   `json:"bus,omitempty"`
	Thing string `json:"thing,omitempty"`
	Field string `json:"field,omitempty"`
	Msg   string `json:"msg,omitempty"`
}

// remoteError is an error of the server: its text, and what it wraps here.
type remoteError struct {
	text  string
	cause error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.cause }

// fail turns an error of the bus into a status with its detail.
func fail(ctx context.Context, err error) error {
	d := detail{Text: err.Error()}
	code := codes.Internal
	for _, k := range kinds() {
		if errors.Is(err, k.err) {
			d.Kind, code = k.name, k.code
			break
		}
	}
	if e, ok := errors.AsType[*bus.Error](err); ok {
		d.Bus, d.Thing, d.Field, d.Msg = true, e.Thing, e.Field, e.Msg
	}
	j, jerr := json.Marshal(&d)
	if jerr == nil {
		jerr = grpc.SetTrailer(ctx, metadata.Pairs(detailKey, string(j)))
	}
	return status.Error(code, errors.Join(err, jerr).Error())
}

// restore turns what a call returned into the error the server meant. The
// result wraps errLost where another try may help.
func restore(ctx context.Context, err error, trailer metadata.MD) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if v := trailer.Get(detailKey); len(v) > 0 {
		var d detail
		if json.Unmarshal([]byte(v[0]), &d) == nil {
			return d.error(ctx)
		}
	}
	s := status.Convert(err)
	switch s.Code() { //nolint:exhaustive // all others are the transport's
	case codes.Unauthenticated:
		return &remoteError{text: s.Message(), cause: ErrToken}
	case codes.Unimplemented:
		return &remoteError{text: s.Message(), cause: bus.ErrUnsupported}
	case codes.ResourceExhausted:
		return &bus.Error{Kind: bus.ErrTooLarge, Thing: "message", Msg: s.Message()}
	case codes.DeadlineExceeded:
		return ended(ctx)
	}
	return &remoteError{text: s.Message(), cause: errLost}
}

func (d *detail) error(ctx context.Context) error {
	var is error
	for _, k := range kinds() {
		if k.name == d.Kind {
			is = k.err
		}
	}
	switch {
	case errors.Is(is, bus.ErrClosed), errors.Is(is, context.Canceled):
		// The server is going down; one that comes up takes over.
		return &remoteError{text: d.Text, cause: errLost}
	case errors.Is(is, context.DeadlineExceeded):
		return ended(ctx)
	}
	if d.Bus {
		e := &bus.Error{Kind: is, Thing: d.Thing, Field: d.Field, Msg: d.Msg}
		if is == nil {
			e.Kind = errors.New(d.Text)
		}
		if e.Error() == d.Text {
			return e
		}
		return &remoteError{text: d.Text, cause: e}
	}
	return &remoteError{text: d.Text, cause: is}
}

// ended is for a call that the other side ended because time was up: ours is
// up as well, or will be in a moment.
func ended(ctx context.Context) error {
	if _, ok := ctx.Deadline(); ok {
		return context.DeadlineExceeded
	}
	return &remoteError{text: "the server ended the call", cause: errLost}
}
