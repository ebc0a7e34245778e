package loop

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"millrace/bus"
	"millrace/connectors"
	"millrace/transforms"
	"millrace/transforms/embed"
)

// OnError says what happens to an event, and to its key, once no try is left.
type OnError string

// The choices.
const (
	Block   OnError = "block"    // keep trying at the longest delay
	Skip    OnError = "skip"     // into the dead letters; the rest goes on
	ParkKey OnError = "park-key" // skip, and later events of the key follow
)

// rowTypes begin the types of CDC events, which block by default: skipping one
// would leave the copy of a row wrong for good. Invariant 4.
const rowTypes = "millrace.row."

// Policy is how one target treats failures.
type Policy struct {
	OnError OnError // "" = skip, but block for CDC events
	Retry   Schedule
	Dead    string // dead-letter topic
}

// On returns what to do with an event of type typ.
func (p *Policy) On(typ string) OnError {
	switch {
	case p.OnError != "":
		return p.OnError
	case strings.HasPrefix(typ, rowTypes):
		return Block
	}
	return Skip
}

// Schedule says when a failed try is repeated. Delays grow by Factor from Delay
// to Max; each is spread over [d, d+Spread).
type Schedule struct {
	Tries  int // repeats before giving up; -1 = no bound
	Delay  time.Duration
	Max    time.Duration
	Factor float64 // at least 1
	Spread time.Duration
	// Within bounds the time since the first failure; 0 = no bound.
	Within time.Duration
}

// Connect is the schedule of errors.retry.timeout and errors.retry.delay.max.ms:
// 300 ms doubling to longest for as long as within; -1 for ever, 0 not at all.
func Connect(within, longest time.Duration) Schedule {
	s := Schedule{Tries: -1, Delay: min(300*time.Millisecond, longest), Max: longest, Factor: 2, Within: max(within, 0)}
	if within == 0 {
		s.Tries = 0
	}
	return s
}

// Next returns how long to wait after failed tries (1 = the first one failed)
// that began since ago; more is false when the schedule is used up. random is in
// [0, 1). A target that asked for a longer pause gets it.
func (s Schedule) Next(failed int, since time.Duration, random float64, err error) (pause time.Duration, more bool) {
	pause = s.At(failed) + time.Duration(random*float64(s.Spread))
	after, _ := Asked(err)
	pause = max(pause, after)
	if s.Tries >= 0 && failed > s.Tries {
		return pause, false
	}
	return pause, s.Within == 0 || since+pause <= s.Within
}

// At is the delay after the n-th failure, without its spread.
func (s Schedule) At(n int) time.Duration {
	d := float64(s.Delay) * math.Pow(max(s.Factor, 1), float64(max(n-1, 0)))
	if d >= float64(s.Max) {
		return s.Max
	}
	return time.Duration(d)
}

// Longest is the pause between the tries of a blocked event, at least 1 s.
func (s Schedule) Longest(random float64, err error) time.Duration {
	after, _ := Asked(err)
	return max(max(s.Max, s.Delay)+time.Duration(random*float64(s.Spread)), after, time.Second)
}

// Asked returns the pause that a target asked for, if it did.
func Asked(err error) (time.Duration, bool) {
	if r, ok := errors.AsType[*connectors.RetryError](err); ok {
		return r.After, true
	}
	if e, ok := errors.AsType[*embed.Error](err); ok { // of an endpoint that a transform asks
		return e.After, true
	}
	return 0, false
}

// Permanent reports whether trying again cannot help: what a transform could not
// do with an event, it cannot do later.
func Permanent(err error) bool {
	if _, retry := Asked(err); retry {
		return false
	}
	var s *transforms.StepError
	return connectors.IsPermanent(err) || errors.As(err, &s) ||
		errors.Is(err, bus.ErrTooLarge) || errors.Is(err, bus.ErrInvalid)
}

// StepOf names the step that failed, "write" where it was the target.
func StepOf(err error) string {
	if s, ok := errors.AsType[*transforms.StepError](err); ok {
		return fmt.Sprintf("transforms[%d].%s", s.Index, s.Step)
	}
	return "write"
}

// maxReason bounds the text of an error that is kept.
const maxReason = 1 << 10

// Reason is an error's text, cut at 1 KiB between characters.
func Reason(err error) string {
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
