package connectorstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"testing"
	"time"

	"go.uber.org/goleak"

	"millrace/bus/event"
	"millrace/connectors"
)

// prompt is how soon a call must return once its context has ended.
const prompt = 5 * time.Second

// SourceCase is a source and an input for it.
type SourceCase struct {
	Plugin connectors.Plugin
	// Config reads an input that has an end: the source answers io.EOF there.
	Config map[string]any
	// Events is how many events the input makes.
	Events int
	// Waiting, where a source can wait for more, is a config that does so at the
	// end of the same input.
	Waiting map[string]any
	// Volatile sources make data anew when they read again; ids stay.
	Volatile bool
}

// Source runs all checks of a source.
func Source(t *testing.T, c SourceCase) {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	kind := c.Plugin.Source
	plugin(t, &c.Plugin, kind.Guarantee)
	Config(t, kind.Spec, kind.Check, c.Config)
	if t.Failed() {
		return
	}
	t.Run("reads all", c.readsAll)
	t.Run("resumes anywhere", c.resumes)
	t.Run("stops when told", c.stops)
	goleak.VerifyNone(t, leaks)
}

// answer is one answer of a source and the positions stored with it.
type answer struct {
	events    []string
	positions map[string]json.RawMessage
	state     *State
}

func (c *SourceCase) open(t *testing.T, config map[string]any, positions map[string]json.RawMessage, state *State) connectors.Source {
	t.Helper()
	s, err := c.Plugin.Source.Open(t.Context(), config, connectors.Env{
		Connector: "conformance", Tasks: 1, Positions: maps.Clone(positions), State: state, Now: time.Now, DataDir: t.TempDir(),
	})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// read opens the source at positions and state and reads to the end.
func (c *SourceCase) read(t *testing.T, positions map[string]json.RawMessage, state *State) []answer {
	t.Helper()
	state = state.Clone()
	s := c.open(t, c.Config, positions, state)
	defer closed(t, s)
	stored := maps.Clone(positions)
	if stored == nil {
		stored = map[string]json.RawMessage{}
	}
	var answers []answer
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		p, err := s.Read(ctx)
		cancel()
		if errors.Is(err, io.EOF) {
			if _, again := s.Read(t.Context()); !errors.Is(again, io.EOF) {
				t.Errorf("after io.EOF: %v", again)
			}
			return answers
		}
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		if len(p.Events) > 0 && len(p.Positions) == 0 {
			t.Error("events without a position")
		}
		for _, bad := range p.Failed {
			t.Errorf("%s: %v", bad.Origin, bad.Err)
		}
		a := answer{}
		for i := range p.Events {
			a.events = append(a.events, c.text(t, &p.Events[i]))
		}
		for partition, offset := range p.Positions {
			switch {
			case !json.Valid([]byte(partition)) || offset != nil && !json.Valid(offset):
				t.Errorf("the position %s: %s is not JSON", partition, offset)
			case offset == nil:
				delete(stored, partition)
			default:
				stored[partition] = offset
			}
		}
		a.positions, a.state = maps.Clone(stored), state.Clone()
		if acker, ok := s.(connectors.Acker); ok {
			if err := acker.Ack(t.Context(), a.positions); err != nil {
				t.Errorf("ack: %v", err)
			}
		}
		answers = append(answers, a)
	}
}

// text is what must be the same whenever an event is read.
func (c *SourceCase) text(t *testing.T, o *connectors.Out) string {
	t.Helper()
	e := o.Event
	if err := e.Validate(); err != nil {
		t.Errorf("event %+v: %v", e, err)
	}
	if e.JSON() && len(e.Data) > 0 {
		if err := event.CheckJSON(e.Data); err != nil {
			t.Errorf("event %s: data: %v", e.ID, err)
		}
	}
	if c.Volatile {
		e.Data, e.Time = nil, time.Time{}
	}
	return fmt.Sprintf("%s %s", o.Topic, event.AppendJSON(nil, &e))
}

func (c *SourceCase) readsAll(t *testing.T) {
	answers := c.read(t, nil, NewState())
	ids := map[string]bool{}
	for _, a := range answers {
		for _, e := range a.events {
			if ids[e] {
				t.Errorf("read twice: %s", e)
			}
			ids[e] = true
		}
	}
	if len(ids) != c.Events {
		t.Errorf("%d events, not %d", len(ids), c.Events)
	}
	if again := events(c.read(t, nil, NewState())); fmt.Sprint(again) != fmt.Sprint(events(answers)) {
		t.Errorf("reading again gives other events:\n%q\n%q", again, events(answers))
	}
}

func events(answers []answer) []string {
	var all []string
	for _, a := range answers {
		all = append(all, a.events...)
	}
	return all
}

// resumes opens the source at every position it ever gave: exactly the rest comes.
func (c *SourceCase) resumes(t *testing.T) {
	answers := c.read(t, nil, NewState())
	for i, a := range answers {
		want := map[string]int{}
		for _, e := range events(answers[i+1:]) {
			want[e]++
		}
		for _, e := range events(c.read(t, a.positions, a.state)) {
			want[e]--
		}
		for e, n := range want {
			if n > 0 {
				t.Errorf("resumed at %s: lost %s", shown(a.positions), e)
			} else if n < 0 {
				t.Errorf("resumed at %s: repeated %s", shown(a.positions), e)
			}
		}
	}
}

func shown(positions map[string]json.RawMessage) string {
	b, err := json.Marshal(positions)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// stops cancels reads that have something to return and, where there are such,
// ones that wait; and closes without having read.
func (c *SourceCase) stops(t *testing.T) {
	closed(t, c.open(t, c.Config, nil, NewState()))
	s := c.open(t, c.Config, nil, NewState())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	within(t, "read with an ended context", func() {
		if _, err := s.Read(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("read with an ended context: %v", err)
		}
	})
	closed(t, s)
	if c.Waiting == nil {
		return
	}
	s = c.open(t, c.Waiting, nil, NewState())
	defer closed(t, s)
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	for n := 0; n < c.Events; {
		p, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		n += len(p.Events)
	}
	time.AfterFunc(30*time.Millisecond, cancel)
	within(t, "cancelled read", func() {
		for {
			p, err := s.Read(ctx)
			if errors.Is(err, context.Canceled) {
				return
			}
			if err != nil || len(p.Events) > 0 {
				t.Errorf("a read that waits: %d events, %v", len(p.Events), err)
				return
			}
		}
	})
}

func closed(t *testing.T, c io.Closer) {
	t.Helper()
	within(t, "close", func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// within fails a call that does not return promptly.
func within(t *testing.T, what string, call func()) {
	t.Helper()
	begin := time.Now()
	call()
	if took := time.Since(begin); took > prompt {
		t.Errorf("%s took %s", what, took)
	}
}
