package rules

import (
	"encoding/json"
	"strings"

	"millrace/bus/event"
	"millrace/rules/pattern"
)

// Condition is one condition of a rule, judged on one event: Path, Op, Wanted,
// Found, OK and a Note with the nearest miss. Paths are those of the spec.
type Condition = pattern.Condition

// Explain judges every condition of a rule by itself, in the order they are
// written, and its where last. It is for people, and far slower than a match.
// The rule matches if Program.Match says so: a $or holds if one branch does.
func Explain(p *Program, e *event.Event) []Condition {
	out := p.when.Explain(e)
	for i := range out {
		out[i].Path = under("when", out[i].Path)
	}
	if p.where == nil {
		return out
	}
	c := Condition{Path: "where", Op: "expr", Wanted: marshal(p.where.String())}
	v, err := p.where.Value(e)
	if err == nil {
		c.Found = []json.RawMessage{marshal(v)}
		c.OK, err = p.where.Bool(e)
	}
	if err != nil {
		c.Note = exprMessage(err)
	}
	return append(out, c)
}

// maxShown is how many bytes of a value an explanation shows. Invariant 10.
const maxShown = 2000

// marshal shows a value; what JSON cannot write, such as NaN, shows as null, and
// what is long as text that is cut.
func marshal(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	if len(b) > maxShown {
		return marshal(strings.ToValidUTF8(string(b[:maxShown/4]), "") + "…")
	}
	return b
}
