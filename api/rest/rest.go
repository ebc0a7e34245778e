package rest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"millrace/bus"
)

// Request is one HTTP request whose body has been read, within its route's limit.
type Request struct {
	Params map[string]string // path parameters, unescaped
	Query  url.Values
	Header http.Header
	Body   []byte
	// HTTP is the request itself; its body has been read.
	HTTP *http.Request
}

// Answer is what a handler gives back. The zero Status is 200; a nil Body is no
// body. A Raw answer is sent as it is, with Type as its content type.
type Answer struct {
	Status int
	Body   any // written as JSON
	Raw    []byte
	Type   string
	Header map[string]string
	// Stream, when set, writes the whole answer itself.
	Stream func(ctx context.Context, w http.ResponseWriter) error
}

// OK answers 200 with body.
func OK(body any) (Answer, error) { return Answer{Body: body}, nil }

// Handler serves one route.
type Handler func(ctx context.Context, r *Request) (Answer, error)

// Route is one method and path, with ":name" for parameters.
type Route struct {
	Method, Path string
	Handle       Handler
	// Query lists the query parameters; others are refused unless Lenient.
	Query   []string
	Lenient bool
	// Open routes ask for no token.
	Open bool
	// Events routes take bodies up to the events limit, others up to 1 MiB.
	Events bool
}

// Has reports whether a query parameter is given.
func (r *Request) Has(name string) bool { return r.Query.Has(name) }

// Bool reads a boolean query parameter: absent is false, empty is true.
func (r *Request) Bool(name string) (bool, error) {
	if !r.Query.Has(name) {
		return false, nil
	}
	switch v := r.Query.Get(name); v {
	case "", "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	default:
		return false, Bad(name, "%q is not true or false", v)
	}
}

// Int reads a whole-number query parameter within [least, most]; absent is def.
func (r *Request) Int(name string, def, least, most int) (int, error) {
	v := r.Query.Get(name)
	if v == "" && !r.Query.Has(name) {
		return def, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, Bad(name, "%q is not a whole number from %d to %d", v, least, most)
	}
	return n, nil
}

// Wait reads a duration query parameter such as "5s", at most most; absent is 0.
func (r *Request) Wait(name string, most time.Duration) (time.Duration, error) {
	v := r.Query.Get(name)
	if v == "" && !r.Query.Has(name) {
		return 0, nil
	}
	d, err := bus.ParseDuration(v)
	if err != nil {
		return 0, Bad(name, "%v", err)
	}
	if d > most {
		return 0, Bad(name, "%q is more than the most that is allowed, %s", v, most)
	}
	return d, nil
}
