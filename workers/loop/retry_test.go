package loop

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"millrace/bus"
	"millrace/connectors"
	"millrace/transforms"
	"millrace/transforms/embed"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	custom := Schedule{Tries: 4, Delay: time.Second, Max: 5 * time.Second, Factor: 2}
	backoff := Schedule{Tries: 3, Delay: 10 * time.Second, Max: 10 * time.Second, Factor: 2, Spread: 10 * time.Second}
	decay := Schedule{Tries: 176, Delay: time.Second, Max: 512 * time.Second, Factor: 2}
	late := fmt.Errorf("busy: %w", &connectors.RetryError{After: time.Minute, Err: errors.New("429")})
	for _, c := range []struct {
		name   string
		s      Schedule
		failed int
		since  time.Duration
		random float64
		err    error
		wait   time.Duration
		more   bool
	}{
		{"backoff, first", backoff, 1, 0, 0, nil, 10 * time.Second, true},
		{"backoff, spread", backoff, 3, time.Hour, 0.5, nil, 15 * time.Second, true},
		{"backoff, used up", backoff, 4, 0, 0, nil, 10 * time.Second, false},
		{"decay, first", decay, 1, 0, 0, nil, time.Second, true},
		{"decay, doubles", decay, 4, 0, 0, nil, 8 * time.Second, true},
		{"decay, longest", decay, 10, 0, 0, nil, 512 * time.Second, true},
		{"decay, last", decay, 176, 0, 0, nil, 512 * time.Second, true},
		{"decay, used up", decay, 177, 0, 0, nil, 512 * time.Second, false},
		{"custom", custom, 3, 0, 0, nil, 4 * time.Second, true},
		{"custom, longest", custom, 4, 0, 0, nil, 5 * time.Second, true},
		{"the target asks for more", custom, 1, 0, 0, late, time.Minute, true},
		{"connector, for ever", Connect(-1, time.Minute), 1000, time.Hour, 0, nil, time.Minute, true},
		{"connector, not at all", Connect(0, time.Minute), 1, 0, 0, nil, 300 * time.Millisecond, false},
		{"connector, in time", Connect(10*time.Second, time.Minute), 3, 5 * time.Second, 0, nil, 1200 * time.Millisecond, true},
		{"connector, too late", Connect(10*time.Second, time.Minute), 3, 9 * time.Second, 0, nil, 1200 * time.Millisecond, false},
		{"connector, delay bounded", Connect(-1, 200*time.Millisecond), 9, 0, 0, nil, 200 * time.Millisecond, true},
	} {
		if wait, more := c.s.Next(c.failed, c.since, c.random, c.err); wait != c.wait || more != c.more {
			t.Errorf("%s: %s %v, want %s %v", c.name, wait, more, c.wait, c.more)
		}
	}
	if d := backoff.Longest(0.5, nil); d != 15*time.Second {
		t.Errorf("longest pause of backoff %s", d)
	}
	if d := (Schedule{}).Longest(0, nil); d != time.Second {
		t.Errorf("longest pause of nothing %s", d)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	plain := errors.New("x")
	step := &transforms.StepError{Index: 2, Step: "set", Err: plain}
	for _, c := range []struct {
		err       error
		permanent bool
		step      string
	}{
		{plain, false, "write"},
		{connectors.Permanent(plain), true, "write"},
		{fmt.Errorf("at: %w", step), true, "transforms[2].set"},
		{&transforms.StepError{Step: "embed", Err: &connectors.RetryError{Err: plain}}, false, "transforms[0].embed"},
		{fmt.Errorf("transforms: %w", &transforms.StepError{Index: 1, Step: "embed", Err: &embed.Error{Err: plain}}), false, "transforms[1].embed"},
		{&bus.Error{Kind: bus.ErrTooLarge}, true, "write"},
		{&connectors.RetryError{Err: plain}, false, "write"},
	} {
		if Permanent(c.err) != c.permanent || StepOf(c.err) != c.step {
			t.Errorf("%v: permanent %v at %s", c.err, Permanent(c.err), StepOf(c.err))
		}
	}
}

func TestPolicyDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given OnError
		typ   string
		want  OnError
	}{
		{"", "order.created", Skip},
		{"", "millrace.row.update", Block},
		{Skip, "millrace.row.update", Skip},
		{ParkKey, "order.created", ParkKey},
	} {
		if got := (&Policy{OnError: c.given}).On(c.typ); got != c.want {
			t.Errorf("%q of %s: %s, want %s", c.given, c.typ, got, c.want)
		}
	}
}

func TestReasonIsCut(t *testing.T) {
	t.Parallel()
	for n := 1000; n < 1100; n++ {
		r := Reason(errors.New(strings.Repeat("a", n%7) + strings.Repeat("ü", n)))
		if len(r) > maxReason || !utf8.ValidString(r) {
			t.Fatalf("%d bytes, valid %v", len(r), utf8.ValidString(r))
		}
	}
}
