package exprs

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
)

// attributes are the names an expression may use beside data and ext.
func attributes() []string {
	return []string{"id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "partitionkey", "specversion"}
}

// extensions are the documented CloudEvents extensions, and Millrace's own.
func extensions() []string {
	return []string{
		"traceparent", "tracestate", "sequence", "sequencetype", "correlationid", "causationid", "dataref",
		"expirytime", "recordedtime", "sampledrate", "severitytext", "severitynumber", "authtype", "authid", "authclaims",
		"dataclassification", "dataregulation", "datacategory", "deprecated", "deprecationfrom", "deprecationsunset",
		"deprecationmigration", "signature", "keyid", "mrqueue", "mroffset", "mrattempt", "mrorigin", "mrreason", "mrstep", "mrhops",
	}
}

// source says where a variable comes from.
type source uint8

const (
	fromAttribute source = iota
	fromExtension
	fromExtensions // all, as a map
	fromData       // a path, or all of it
)

// variable is one thing an expression reads from the event. key names it in the
// cache and is equal for equal things.
type variable struct {
	from source
	key  string
	name string // of an attribute or extension
	path []step // of data
}

// step goes to a member (name) or an element (index, when name is nil).
type step struct {
	name  *string
	index int
}

// use makes sure that the expression loads v, and returns its key.
func (r *rewriter) use(v variable) string {
	if !slices.ContainsFunc(r.expr.vars, func(o variable) bool { return o.key == v.key }) {
		r.expr.vars = append(r.expr.vars, v)
	}
	return v.key
}

// identifier resolves a bare name.
func (r *rewriter) identifier(n *ast.IdentifierNode, s *scope) ast.Node {
	name := n.Value
	if s.has(name) {
		return n
	}
	v := variable{key: name, name: name}
	switch {
	case slices.Contains(attributes(), name):
	case name == "data":
		v.from = fromData
	case name == "ext":
		v.from = fromExtensions
	case slices.Contains(extensions(), name) || slices.Contains(r.options.Extensions, name):
		v.from, v.key = fromExtension, "ext."+name
	case name == "$env":
		return r.fail(n, "$env is not available: use the names of attributes, data and ext")
	default:
		known := slices.Concat(attributes(), []string{"data", "ext"}, extensions())
		if near := didYouMean(name, known); near != "" {
			return r.fail(n, "there is no %s%s An extension is written ext.%s", name, near, name)
		}
		return r.fail(n, "there is no %s: fields of the payload are data.%s, an extension is ext.%s", name, name, name)
	}
	n.Value = r.use(v)
	return n
}

// path recognises plain paths: data or ext followed by constant members and
// elements.
func (r *rewriter) path(n ast.Node, s *scope) (variable, bool) {
	var steps []step
	for {
		switch m := n.(type) {
		case *ast.ChainNode:
			n = m.Node
			continue
		case *ast.MemberNode:
			switch p := m.Property.(type) {
			case *ast.StringNode:
				steps = append(steps, step{name: &p.Value})
			case *ast.IntegerNode:
				if p.Value < 0 {
					return variable{}, false
				}
				steps = append(steps, step{index: p.Value})
			default:
				return variable{}, false
			}
			n = m.Node
			continue
		case *ast.IdentifierNode:
			if len(steps) == 0 || s.has(m.Value) {
				return variable{}, false
			}
			slices.Reverse(steps)
			switch {
			case m.Value == "data":
				return variable{from: fromData, key: pathKey(steps), path: steps}, true
			case m.Value == "ext" && len(steps) == 1 && steps[0].name != nil:
				return variable{from: fromExtension, key: "ext." + *steps[0].name, name: *steps[0].name}, true
			}
		}
		return variable{}, false
	}
}

func pathKey(steps []step) string {
	var b strings.Builder
	b.WriteString("data")
	for _, s := range steps {
		if s.name != nil {
			b.WriteString("." + strconv.Quote(*s.name))
		} else {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}
	return b.String()
}

func functionNames(c *conf.Config) []string {
	names := slices.Collect(maps.Keys(c.Builtins))
	for name := range c.Functions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// didYouMean returns ": did you mean x?" for the nearest of list, or nothing.
func didYouMean(word string, list []string) string {
	best, at := "", max(1, len(word)/3)+1
	for _, w := range list {
		if d := distance(strings.ToLower(word), strings.ToLower(w)); d < at {
			best, at = w, d
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean " + best + "?"
}

// distance is Levenshtein's, over bytes.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = min(d, row[j], row[j+1]) + 1
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
