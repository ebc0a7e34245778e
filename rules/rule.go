package rules

import (
	"encoding/json"
	"fmt"
	"time"
)

// Rule is one rule as it was written, with its defaults filled in.
type Rule struct {
	Name        string
	Description string
	From        []string          // topics, at least one
	When        json.RawMessage   // a pattern; nil matches every event
	Where       json.RawMessage   // an expression; nil is true
	Transforms  []json.RawMessage // steps, in order
	To          []Target          // at least one; names are unique
	OnError     OnError           // "" = skip, but block for changes of database rows
	Retry       Retry
	DeadLetter  DeadLetter
	Start       Start // default latest
}

// Target is one place where a rule's events go: a topic, a connector or an HTTP
// endpoint, exactly one of them.
type Target struct {
	// Name tells the targets of a rule apart and is part of its queue's name:
	// letters, digits, "_" and "-", at most 100. Default: the topic or connector
	// with "_" for what does not fit, or http-<n>, n counting targets from 1.
	Name      string
	Topic     string
	Connector string
	HTTP      *HTTP
}

// HTTP is an HTTP endpoint. Config holds every key of the target, url and
// connection among them; it is read by the http sink's own description, which
// refuses keys it does not know.
type HTTP struct {
	URL        string // http or https, or with references such as ${env:HOST}
	Connection string // name of a stored connection, or ""
	Config     map[string]json.RawMessage
}

// OnError says what happens to the events of a key when one of them has failed
// for good. Invariant 4.
type OnError string

// The choices.
const (
	Block   OnError = "block"    // the key waits until someone acts
	ParkKey OnError = "park-key" // it and the later ones of its key go to the dead letters
	Skip    OnError = "skip"     // it goes to the dead letters, the others go on
)

// Strategy names a retry schedule.
type Strategy string

// The schedules, with their defaults.
const (
	Backoff     Strategy = "backoff"           // 3 retries, 10 to 20 s apart
	Exponential Strategy = "exponential-decay" // 176 retries, 1 s doubling to 512 s: about a day
	Custom      Strategy = "custom"            // attempts, delay and maxDelay as given
)

// Retry is the schedule of deliveries after a failed one.
type Retry struct {
	Strategy Strategy
	Attempts int           // retries after the first try; 0 = none
	Delay    time.Duration // before the first retry
	MaxDelay time.Duration // the longest pause; Delay doubles up to it
	Jitter   time.Duration // a random part of each pause, on top
	MaxAge   time.Duration // no retry later than this after the first failure; 0 = not bounded
}

// Pause returns how long to wait before retry number n, counted from 1. random is
// in [0, 1) and decides the jitter.
func (r *Retry) Pause(n int, random float64) time.Duration {
	d := r.Delay
	for i := 1; i < n && d < r.MaxDelay; i++ {
		d *= 2
	}
	return min(d, r.MaxDelay) + time.Duration(random*float64(r.Jitter))
}

// DeadLetter says where events go that failed for good.
type DeadLetter struct {
	Topic string // "" = the rule's own
}

// Start says which events a new rule sees first. The zero value is latest: what
// is stored after it was made.
type Start struct {
	Earliest bool
	Time     time.Time // not zero: what is stored from then on
}

// String is the form in a spec: latest, earliest or an RFC 3339 time.
func (s Start) String() string {
	switch {
	case s.Earliest:
		return "earliest"
	case !s.Time.IsZero():
		return s.Time.Format(time.RFC3339Nano)
	}
	return "latest"
}

// Error says what is wrong with a rule. Field is the place in its spec, such as
// "when.data.amount[0]"; it is empty where the whole is meant.
type Error struct {
	Rule  string // may be empty
	Field string
	Msg   string // what is wrong and how to mend it
}

func (e *Error) Error() string {
	s := "rule"
	if e.Rule != "" {
		s += " " + e.Rule
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Msg
}

func errorf(field, format string, args ...any) *Error {
	return &Error{Field: field, Msg: fmt.Sprintf(format, args...)}
}
