package transforms

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/bus/event"
	"millrace/rules/exprs"
	"millrace/schemas/spec"
	"millrace/transforms/embed"
)

// Env is what steps need of the world around them. The zero value works.
type Env struct {
	// Now is the clock of expressions; default time.Now.
	Now func() time.Time
	// Miss is told of every condition that failed on an event and so counted as
	// false, with the number of its step; default nobody. It must not block.
	Miss func(step int, err error)
}

// Error says what is wrong with a chain: Field is the place, such as
// "transforms[2].set.data.size".
type Error struct {
	Field string
	Msg   string // what is wrong and how to mend it
}

func (e *Error) Error() string { return e.Field + ": " + e.Msg }

// StepError says at which step an event failed.
type StepError struct {
	Index int    // of the step, from 0
	Step  string // its name, such as "set"
	Err   error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("transforms[%d].%s: %v", e.Index, e.Step, e.Err)
}

// Unwrap gives the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Chain is a list of steps. It never changes and may be used by many goroutines
// at once. It is a Transform.
type Chain struct {
	steps []chained
	env   Env
}

type chained struct {
	step
	batch *embed.Step // in place of step
	name  string
	cond  condition // empty without `if`
}

// step works on one event at a time. It appends what becomes of e to out:
// nothing drops it. s.e is e. It changes copies only.
type step interface {
	apply(s *scratch, e event.Event, out []event.Event) ([]event.Event, error)
}

// compiler is what compiling one step needs.
type compiler struct {
	env   Env
	exprs exprs.Options
	index int
}

// Compile reads a chain: each step is an object with the step's name as its one
// key, beside `if` and what the step allows. The error is an *Error.
func Compile(steps []json.RawMessage, env Env) (*Chain, error) {
	c := &Chain{env: env}
	for i, raw := range steps {
		cc := compiler{env: env, exprs: exprs.Options{Now: env.Now}, index: i}
		st, err := cc.compile(raw)
		if err != nil {
			return nil, at(fmt.Sprintf("transforms[%d]", i), err)
		}
		c.steps = append(c.steps, st)
	}
	return c, nil
}

// at puts a place before an error's own.
func at(field string, err error) error {
	var own *Error
	if !errors.As(err, &own) {
		var se *spec.Error
		if !errors.As(err, &se) || len(se.Problems) == 0 {
			return &Error{Field: field, Msg: err.Error()}
		}
		own = &Error{Field: se.Problems[0].Path, Msg: se.Problems[0].Msg}
	}
	if own.Field != "" && own.Field[0] != '[' {
		field += "."
	}
	return &Error{Field: field + own.Field, Msg: own.Msg}
}

// compile reads one step.
func (c *compiler) compile(raw json.RawMessage) (chained, error) {
	raw = bytes.TrimSpace(raw)
	if err := event.CheckJSON(raw); err != nil {
		return chained{}, err
	}
	if raw[0] != '{' {
		return chained{}, errors.New(`a step must be an object such as {"set": {"data.size": "'big'"}}`)
	}
	if err := noDuplicates(raw, 0, ""); err != nil {
		return chained{}, err
	}
	config := map[string]any{}
	var keys []string
	w := walkAt(raw, 0)
	for it := (item{}); w.next(&it); {
		key := keyOf(raw, &it)
		keys = append(keys, key)
		config[key] = json.RawMessage(bytes.Clone(raw[it.val:it.vend]))
	}
	kind, err := kindFor(keys)
	if err != nil {
		return chained{}, err
	}
	for _, f := range kind.Spec.Fields() {
		if v, ok := config[f.Name].(json.RawMessage); ok && f.Kind == spec.Map && v[0] == '{' {
			config[f.Name] = members(v)
		}
	}
	st := chained{name: kind.Name}
	if kind.batch != nil {
		st.batch, err = kind.batch(config)
	} else {
		st.step, err = kind.compile(c, config)
	}
	if err != nil {
		return chained{}, err
	}
	if cond, ok := config["if"].(json.RawMessage); ok {
		if st.cond, err = c.compileIf(cond); err != nil {
			return chained{}, at("if", err)
		}
	}
	return st, nil
}

// kindFor finds the one key that names a step.
func kindFor(keys []string) (Kind, error) {
	var found []Kind
	names := make([]string, 0, 16)
	for _, k := range List() {
		names = append(names, k.Name)
		if slices.Contains(keys, k.Name) {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 0:
		if i := slices.IndexFunc(keys, func(k string) bool { return k != "if" }); i >= 0 {
			msg := "unknown step; known are " + strings.Join(names, ", ")
			if near := spec.Nearest(keys[i], names); near != "" {
				msg = fmt.Sprintf("unknown step, did you mean %q?", near)
			}
			return Kind{}, &Error{Field: keys[i], Msg: msg}
		}
		return Kind{}, errors.New("names no step: write one of " + strings.Join(names, ", "))
	case 1:
		return found[0], nil
	}
	return Kind{}, fmt.Errorf("has two steps, %s and %s: write each as its own item of the list", found[0].Name, found[1].Name)
}

// members splits a JSON object into its members.
func members(raw []byte) map[string]any {
	m := map[string]any{}
	w := walkAt(raw, 0)
	for it := (item{}); w.next(&it); {
		m[keyOf(raw, &it)] = json.RawMessage(raw[it.val:it.vend])
	}
	return m
}

// noDuplicates refuses objects with two members of one name.
func noDuplicates(raw []byte, from int, path string) error {
	if c := raw[from]; c != '{' && c != '[' {
		return nil
	}
	seen := map[string]bool{}
	w := walkAt(raw, from)
	for it := (item{}); w.next(&it); {
		inner := fmt.Sprintf("%s[%d]", path, it.index)
		if !w.list {
			key := keyOf(raw, &it)
			inner = strings.TrimPrefix(path+"."+key, ".")
			if seen[key] {
				return &Error{Field: inner, Msg: "stands there twice"}
			}
			seen[key] = true
		}
		if err := noDuplicates(raw, it.val, inner); err != nil {
			return err
		}
	}
	return w.err
}

// Apply runs the steps in order over the batch, which stays as it is. An event
// that fails in a step stops there: its Result holds the event as it came into
// that step and a *StepError. Results are in the order of their parents. An
// error of Apply itself is ctx's, or the *StepError of a step that asks others
// (*embed.Error): none of the batch is done, and it may be tried again.
func (c *Chain) Apply(ctx context.Context, in []event.Event) ([]Result, error) {
	now, next := make([]Result, len(in)), make([]Result, 0, len(in))
	for i := range in {
		now[i] = Result{Parent: i, Event: in[i]}
	}
	r := runner{chain: c}
	for i := range c.steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		made, err := r.step(ctx, i, now, next[:0])
		if err != nil {
			return nil, cmp.Or(ctx.Err(), error(&StepError{Index: i, Step: c.steps[i].name, Err: err}))
		}
		now, next = made, now
	}
	return now, nil
}

// Len is the number of steps.
func (c *Chain) Len() int { return len(c.steps) }

// runner is one call of Apply.
type runner struct {
	chain *Chain
	s     scratch
	out   []event.Event
}

// miss tells Env.Miss of conditions of step i that failed.
func (r *runner) miss(i int) func(error) {
	return func(err error) {
		if r.chain.env.Miss != nil {
			r.chain.env.Miss(i, err)
		}
	}
}

// step appends to out what step i makes of the items.
func (r *runner) step(ctx context.Context, i int, items, out []Result) ([]Result, error) {
	st := &r.chain.steps[i]
	if st.batch != nil {
		return r.batch(ctx, i, items, out)
	}
	miss := r.miss(i)
	for n := range items {
		it := &items[n]
		if it.Err != nil {
			out = append(out, *it)
			continue
		}
		r.s.begin(&it.Event)
		if !st.cond.holds(&r.s, miss) {
			out = append(out, *it)
			continue
		}
		made, err := st.apply(&r.s, it.Event, r.out[:0])
		r.out = made
		if err != nil {
			out = append(out, Result{Parent: it.Parent, Event: it.Event, Err: &StepError{Index: i, Step: st.name, Err: err}})
			continue
		}
		for _, e := range made {
			out = append(out, Result{Parent: it.Parent, Event: e})
		}
	}
	return out, nil
}
