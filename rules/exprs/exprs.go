// Package exprs compiles the expressions of rules and transforms. An expression
// reads one event: its attributes by their CloudEvents names, extensions as
// ext.name, and data as nested maps, lists and exact numbers.
package exprs

import (
	"encoding/json"
	"time"

	"millrace/bus/event"
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
type Expr struct{}

// Compile reads an expression in the language of expr-lang. The error is an
// *Error with the place.
func Compile(src string, o Options) (*Expr, error) { return nil, &Error{Msg: "not yet"} }

// CompileWhere reads the value of `where`: a string (the expression itself) or
// {"expr": "…"}. The error is an *Error.
func CompileWhere(raw json.RawMessage, o Options) (*Expr, error) { return nil, &Error{Msg: "not yet"} }

// Bool evaluates a condition. An error means that the expression failed on this
// event (the answer is then false), or that its value is not a boolean. A nil
// value counts as false.
func (x *Expr) Bool(e *event.Event) (bool, error) { var c Cache; c.Reset(e); return x.BoolIn(&c) }

// Value evaluates an expression. Values of data come as nil, bool, string, int64,
// float64, json.Number (a number that is exact in neither), []any and
// map[string]any; results of arithmetic as int or float64. Maps and lists are
// shared with other expressions of the event: the caller does not change them.
func (x *Expr) Value(e *event.Event) (any, error) { var c Cache; c.Reset(e); return x.ValueIn(&c) }

// BoolIn is Bool on the event of c.
func (x *Expr) BoolIn(c *Cache) (bool, error) { return false, nil }

// ValueIn is Value on the event of c.
func (x *Expr) ValueIn(c *Cache) (any, error) { return nil, nil }

// Cache is what several expressions on one event share: attributes are boxed and
// data is decoded at most once. It belongs to one goroutine; the zero value is
// ready once Reset has given it an event.
type Cache struct{ e *event.Event }

// Reset makes c hold e and forget the event before.
func (c *Cache) Reset(e *event.Event) { c.e = e }

// Error says what is wrong with an expression and where; Line and Column count
// from 1 and are 0 where there is no place.
type Error struct {
	Line, Column int
	Msg          string
}

func (e *Error) Error() string { return e.Msg }
