package workers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"millrace/bus"
	"millrace/connectors"
	"millrace/transforms"
)

// onError says what happens to an event, and to its key, once no try is left.
type onError string

const (
	block   onError = "block"    // keep trying at the longest delay
	skip    onError = "skip"     // into the dead letters; the rest goes on
	parkKey onError = "park-key" // skip, and later events of the key follow
)

// rowTypes begin the types of CDC events, which block by default: skipping one
// would leave the copy of a row wrong for good. Invariant 4.
const rowTypes = "millrace.row."

// policy is how one target treats failures.
type policy struct {
	onError onError // "" = skip, but block for CDC events
	retry   schedule
	dead    string // dead-letter topic
}

// on returns what to do with an event of type typ.
func (p *policy) on(typ string) onError {
	switch {
	case p.onError != "":
		return p.onError
	case len(typ) >= len(rowTypes) && typ[:len(rowTypes)] == rowTypes:
		return block
	}
	return skip
}

// schedule says when a failed try is repeated. Delays grow by factor from delay
// to max; each is spread over [d, d+spread).
type schedule struct {
	tries  int // repeats before giving up; -1 = no bound
	delay  time.Duration
	max    time.Duration
	factor float64
	spread time.Duration
	// within bounds the time since the first failure; 0 = no bound.
	within time.Duration
}

// The schedules that rules name. A backoff is 3 tries 10 to 20 seconds apart,
// exponential-decay 176 tries, 1 s doubling to 512 s, about a day in all.
var (
	backoffRetry = schedule{tries: 3, delay: 10 * time.Second, max: 10 * time.Second, factor: 1, spread: 10 * time.Second}
	decayRetry   = schedule{tries: 176, delay: time.Second, max: 512 * time.Second, factor: 2}
	noRetry      = schedule{delay: time.Second, max: time.Minute, factor: 2}
)

// connectRetry is Connect's errors.retry.timeout and errors.retry.delay.max.ms:
// 300 ms doubling to longest for as long as within, -1 for ever, 0 not at all.
func connectRetry(within, longest time.Duration) schedule {
	s := schedule{tries: -1, delay: min(300*time.Millisecond, longest), max: longest, factor: 2, within: within}
	if within == 0 {
		s.tries = 0
	}
	if within < 0 {
		s.within = 0
	}
	return s
}

// next returns how long to wait after failed tries (1 = the first one failed)
// that began since ago; more is false when the schedule is used up. random is in
// [0, 1). A target that asked for a longer pause gets it.
func (s schedule) next(failed int, since time.Duration, random float64, err error) (wait time.Duration, more bool) {
	wait = s.at(failed) + time.Duration(random*float64(s.spread))
	if after, ok := asRetry(err); ok {
		wait = max(wait, after)
	}
	if s.tries >= 0 && failed > s.tries {
		return wait, false
	}
	return wait, s.within == 0 || since+wait <= s.within
}

// at is the delay after the n-th failure, without its spread.
func (s schedule) at(n int) time.Duration {
	d := float64(s.delay) * math.Pow(max(s.factor, 1), float64(max(n-1, 0)))
	if d >= float64(s.max) {
		return s.max
	}
	return time.Duration(d)
}

// longest is the pause between the tries of a blocked event.
func (s schedule) longest(random float64, err error) time.Duration {
	wait := max(s.max, s.delay) + time.Duration(random*float64(s.spread))
	after, _ := asRetry(err)
	return max(wait, after, time.Second)
}

func asRetry(err error) (time.Duration, bool) {
	var r *connectors.RetryError
	if errors.As(err, &r) {
		return r.After, true
	}
	return 0, false
}

// permanent reports whether trying again cannot help: what a transform could not
// do with an event, it cannot do later.
func permanent(err error) bool {
	if _, retry := asRetry(err); retry {
		return false
	}
	var s *transforms.StepError
	return connectors.IsPermanent(err) || errors.As(err, &s) ||
		errors.Is(err, bus.ErrTooLarge) || errors.Is(err, bus.ErrInvalid)
}

// stepOf names the step that failed, "write" where it was the target.
func stepOf(err error) string {
	var s *transforms.StepError
	if errors.As(err, &s) {
		return fmt.Sprintf("transforms[%d].%s", s.Index, s.Step)
	}
	return "write"
}

// ends reports errors of an append after which the task cannot go on under its
// present slot or topics: the loop is run again from stored positions.
func ends(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, bus.ErrFenced) || errors.Is(err, bus.ErrNoTopic) ||
		errors.Is(err, bus.ErrInvalid) || errors.Is(err, bus.ErrTooLarge) || errors.Is(err, bus.ErrConflict) ||
		errors.Is(err, bus.ErrUnsupported) || errors.Is(err, bus.ErrCorrupt) || errors.Is(err, bus.ErrClosed)
}

// maxReason bounds the text of an error that is kept.
const maxReason = 1 << 10

// reason is an error's text, cut at 1 KiB between characters.
func reason(err error) string {
	s := err.Error()
	if len(s) <= maxReason {
		return s
	}
	n := maxReason - len("…")
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
