// Package exprs compiles the expressions of rules and transforms. An expression
// reads one event: its attributes by their CloudEvents names, extensions as
// ext.name, and data as nested maps, lists and exact numbers. EXPRESSIONS.md
// beside the code says how they differ from plain expr-lang: what is missing is
// nil, nil compares as false, and numbers keep their exact value.
//
// The package does no I/O. An expression cannot loop but over what the event
// holds, at most two deep, and its size and memory are bounded.
package exprs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"millrace/bus/event"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
)

// Options bounds an expression. The zero value works.
type Options struct {
	// MaxNodes is how large an expression may be, in nodes of its syntax tree;
	// default 1000.
	MaxNodes uint
	// MemoryBudget is how many elements one evaluation may create; default 100000.
	MemoryBudget uint
	// Extensions are extension names that may be used bare, beside the documented
	// CloudEvents extensions, which always may. Others are written ext.name.
	Extensions []string
	// Now is the clock behind now(); default time.Now.
	Now func() time.Time
}

// Expr is one compiled expression. It never changes and may be used by many
// goroutines at once.
type Expr struct {
	src     string
	program *vm.Program
	vars    []variable
	paths   *fetch // of the variables that are paths of data
	budget  uint
	builds  bool // it can make lists or maps, whose size is checked
}

// Compile reads an expression in the language of expr-lang. The error is an
// *Error with the place.
func Compile(src string, o Options) (*Expr, error) {
	if o.MaxNodes == 0 {
		o.MaxNodes = 1000
	}
	if o.MemoryBudget == 0 {
		o.MemoryBudget = 100000
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return compile(src, o)
}

// CompileWhere reads the value of `where`: a string (the expression itself) or
// {"expr": "…"}. The error is an *Error.
func CompileWhere(raw json.RawMessage, o Options) (*Expr, error) {
	src := ""
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
		var w map[string]json.RawMessage
		if err := json.Unmarshal(raw, &w); err != nil {
			return nil, &Error{Msg: "is not JSON: " + err.Error()}
		}
		for _, name := range []string{"cesql", "sql92"} {
			if _, ok := w[name]; ok {
				return nil, &Error{Msg: name + " is not supported yet: write an expression, as in {\"expr\": \"data.amount > 100\"}"}
			}
		}
		text, ok := w["expr"]
		if !ok || len(w) != 1 {
			return nil, &Error{Msg: `takes a string or an object with the one key "expr"`}
		}
		raw = text
	}
	if err := json.Unmarshal(raw, &src); err != nil {
		return nil, &Error{Msg: `is not a string, such as "data.amount > 100"`}
	}
	x, err := Compile(src, o)
	if err != nil {
		return nil, err
	}
	// What can be told now must not wait for an event: `1 + 1` is no condition.
	t := x.program.Node().Type()
	if len(x.vars) == 0 { // a constant
		if v, err := x.Value(&event.Event{}); err == nil {
			t = reflect.TypeOf(v)
		}
	}
	switch {
	case t == nil, t.Kind() == reflect.Bool, t.Kind() == reflect.Interface:
		return x, nil
	default:
		return nil, &Error{Line: 1, Column: 1, Msg: fmt.Sprintf("is of type %s, and a condition is true or false: compare it with something", t)}
	}
}

// String returns the source of the expression.
func (x *Expr) String() string { return x.src }

// Bool evaluates a condition. An error means that the expression failed on this
// event (the answer is then false), or that its value is not a boolean. A nil
// value counts as false.
func (x *Expr) Bool(e *event.Event) (bool, error) {
	var c Cache
	c.Reset(e)
	return x.BoolIn(&c)
}

// Value evaluates an expression. Values of data come as nil, bool, string, int64,
// float64, json.Number (a number that is exact in neither), []any and
// map[string]any; results of arithmetic as int, int64 or float64. Maps and lists
// may be shared with other expressions of the event, and strings with its Data:
// the caller does not change them.
func (x *Expr) Value(e *event.Event) (any, error) {
	var c Cache
	c.Reset(e)
	return x.ValueIn(&c)
}

// BoolIn is Bool on the event of c.
func (x *Expr) BoolIn(c *Cache) (bool, error) {
	v, err := x.ValueIn(c)
	if err != nil || v == nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, &Error{Msg: fmt.Sprintf("the condition gives %s, not true or false", describe(v))}
	}
	return b, nil
}

// ValueIn is Value on the event of c.
func (x *Expr) ValueIn(c *Cache) (any, error) {
	if err := c.load(x); err != nil {
		return nil, err
	}
	c.vm.MemoryBudget = x.budget
	v, err := c.vm.Run(x.program, c.env)
	if err != nil {
		return nil, toError(err)
	}
	if x.builds {
		m := meter{values: maxValues, text: maxText}
		if !m.walk(reflect.ValueOf(v)) {
			return nil, &Error{Msg: errTooLarge.Error()}
		}
	}
	return v, nil
}

// Error says what is wrong with an expression and where; Line and Column count
// from 1 and are 0 where there is no place.
type Error struct {
	Line, Column int
	Msg          string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return "expression: " + e.Msg
	}
	return fmt.Sprintf("expression: line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

func toError(err error) *Error {
	var own *Error
	if errors.As(err, &own) && own.Line > 0 {
		return own
	}
	if at, ok := errors.AsType[*file.Error](err); ok {
		return &Error{Line: at.Line, Column: at.Column + 1, Msg: at.Message}
	}
	return &Error{Msg: err.Error()}
}
