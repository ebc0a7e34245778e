package rules

import (
	"errors"
	"fmt"
	"time"

	"millrace/bus/event"
	"millrace/rules/exprs"
	"millrace/rules/pattern"
	"millrace/transforms"
)

// Env is what programs need of the world around them. The zero value works.
type Env struct {
	// Now is the clock of expressions; default time.Now.
	Now func() time.Time
	// Miss is told of every condition of a step that failed on an event and so
	// counted as false; default nobody. It must not block.
	Miss func(rule string, step int, err error)
}

// Program is a rule ready to run. It never changes and may be used by many
// goroutines at once.
type Program struct {
	Rule  *Rule
	Chain *transforms.Chain // of no steps where the rule has none
	when  *pattern.Pattern
	where *exprs.Expr // nil: true
}

// Compile checks a rule's pattern, expression and steps. The error is an *Error
// with the place.
func Compile(r *Rule, env Env) (*Program, error) {
	p, err := compile(r, env)
	return p, named(r.Name, err)
}

func compile(r *Rule, env Env) (*Program, error) {
	p := &Program{Rule: r}
	when := []byte(r.When)
	if when == nil {
		when = []byte("{}")
	}
	var err error
	if p.when, err = pattern.Compile(when); err != nil {
		if pe, ok := errors.AsType[*pattern.Error](err); ok {
			return nil, errorf(under("when", pe.Path), "%s", pe.Msg)
		}
		return nil, errorf("when", "%v", err)
	}
	if r.Where != nil {
		if p.where, err = exprs.CompileWhere(r.Where, exprs.Options{Now: env.Now}); err != nil {
			return nil, errorf("where", "%s", exprMessage(err))
		}
	}
	te := transforms.Env{Now: env.Now}
	if env.Miss != nil {
		te.Miss = func(step int, err error) { env.Miss(r.Name, step, err) }
	}
	if p.Chain, err = transforms.Compile(r.Transforms, te); err != nil {
		if te, ok := errors.AsType[*transforms.Error](err); ok {
			return nil, errorf(te.Field, "%s", te.Msg)
		}
		return nil, errorf("transforms", "%v", err)
	}
	return p, nil
}

// under puts a pattern's own path below a field.
func under(field, path string) string {
	if path == "" || path[0] == '[' {
		return field + path
	}
	return field + "." + path
}

func exprMessage(err error) string {
	var xe *exprs.Error
	if errors.As(err, &xe) && xe.Line > 0 {
		return fmt.Sprintf("line %d, column %d: %s", xe.Line, xe.Column, xe.Msg)
	}
	if xe != nil {
		return xe.Msg
	}
	return err.Error()
}

// Match reports whether one rule alone matches e; an error says that its where
// failed, which counts as false. For many rules use a Set.
func (p *Program) Match(e *event.Event) (bool, error) {
	if !p.when.Match(e, nil) {
		return false, nil
	}
	if p.where == nil {
		return true, nil
	}
	return p.where.Bool(e)
}
