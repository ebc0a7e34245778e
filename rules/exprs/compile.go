package exprs

import (
	"errors"
	"fmt"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/optimizer"
	"github.com/expr-lang/expr/parser"
)

// maxSource bounds an expression's text, in bytes, and maxNested how many
// predicates (of any, filter, …) may stand in each other. Invariant 10.
const (
	maxSource = 64 << 10
	maxNested = 2
)

func compile(src string, o Options) (*Expr, error) {
	if len(src) > maxSource {
		return nil, &Error{Msg: fmt.Sprintf("is %d bytes long; at most %d are allowed", len(src), maxSource)}
	}
	c := conf.CreateNew()
	for _, opt := range []expr.Option{
		expr.Env(map[string]any{}), // makes names load from a map
		expr.AllowUndefinedVariables(),
		expr.MaxNodes(o.MaxNodes),
		expr.DisableBuiltin("type"), // an attribute here
		expr.Function("now", func(...any) (any, error) { return o.Now(), nil }, o.Now),
		expr.Function("fromJSON", fromJSON, new(func(string) any)),
		expr.Function("replace", replace, new(func(...any) string)),
		expr.Function("split", split, new(func(...any) []any)),
		expr.Function("splitAfter", splitAfter, new(func(...any) []any)),
		expr.Function("join", join, new(func(...any) string)),
	} {
		opt(c)
	}
	for name := range c.Disabled {
		delete(c.Builtins, name)
	}
	tree, err := parser.ParseWithConfig(src, c)
	if err != nil {
		return nil, toError(err)
	}
	r := rewriter{src: tree.Source, options: o, config: c, expr: &Expr{src: src, budget: o.MemoryBudget}}
	tree.Node = r.rewrite(tree.Node, nil)
	if r.err != nil {
		return nil, r.err
	}
	if _, err := checker.Check(tree, c); err != nil {
		return nil, toError(err)
	}
	if err := optimizer.Optimize(&tree.Node, c); err != nil {
		return nil, bind(err, tree.Source)
	}
	x := r.expr
	if x.program, err = compiler.Compile(tree, c); err != nil {
		return nil, bind(err, tree.Source)
	}
	x.paths = newFetch(x.vars)
	return x, nil
}

func bind(err error, src file.Source) *Error {
	f := &file.Error{}
	if errors.As(err, &f) {
		err = f.Bind(src)
	}
	return toError(err)
}

// scope is the variables that let has bound around a node, innermost first.
type scope struct {
	name string
	up   *scope
}

func (s *scope) has(name string) bool {
	for ; s != nil; s = s.up {
		if s.name == name {
			return true
		}
	}
	return false
}

// rewriter turns the tree that expr parsed into one that reads events: names are
// resolved, plain paths of data become one variable each, and operators that
// would fail on nil or lose digits become calls of this package.
type rewriter struct {
	src     file.Source
	options Options
	config  *conf.Config
	expr    *Expr
	nested  int
	err     *Error
}

func (r *rewriter) fail(n ast.Node, format string, args ...any) ast.Node {
	if r.err == nil {
		at := &file.Error{Location: n.Location(), Message: fmt.Sprintf(format, args...)}
		r.err = toError(at.Bind(r.src))
	}
	return n
}

func (r *rewriter) rewrite(n ast.Node, s *scope) ast.Node {
	if v, ok := r.path(n, s); ok {
		return at(n, &ast.IdentifierNode{Value: r.use(v)})
	}
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return r.identifier(n, s)
	case *ast.MemberNode:
		return call(n, get, r.rewrite(n.Node, s), r.rewrite(n.Property, s))
	case *ast.ChainNode:
		return r.rewrite(n.Node, s) // get passes nil on by itself
	case *ast.UnaryNode:
		n.Node = r.rewrite(n.Node, s)
		if n.Operator == "not" || n.Operator == "!" {
			n.Node = condition(n.Node)
		} else {
			n.Node = numeric(n.Node)
		}
	case *ast.BinaryNode:
		return r.binary(n, s)
	case *ast.SliceNode:
		n.Node = r.rewrite(n.Node, s)
		if n.From != nil {
			n.From = r.rewrite(n.From, s)
		}
		if n.To != nil {
			n.To = r.rewrite(n.To, s)
		}
	case *ast.CallNode:
		return r.call(n, s)
	case *ast.BuiltinNode:
		return r.builtin(n, s)
	case *ast.PredicateNode:
		r.expr.builds = true
		if r.nested++; r.nested > maxNested {
			return r.fail(n, "predicates nest more than %d deep", maxNested)
		}
		n.Node = r.rewrite(n.Node, s)
		r.nested--
	case *ast.ConditionalNode:
		n.Cond = condition(r.rewrite(n.Cond, s))
		n.Exp1, n.Exp2 = r.rewrite(n.Exp1, s), r.rewrite(n.Exp2, s)
	case *ast.VariableDeclaratorNode:
		n.Value = r.rewrite(n.Value, s)
		n.Expr = r.rewrite(n.Expr, &scope{n.Name, s})
	case *ast.SequenceNode:
		r.all(n.Nodes, s)
	case *ast.ArrayNode:
		r.expr.builds = true
		r.all(n.Nodes, s)
	case *ast.MapNode:
		r.expr.builds = true
		r.all(n.Pairs, s)
	case *ast.PairNode:
		n.Key, n.Value = r.rewrite(n.Key, s), r.rewrite(n.Value, s)
	}
	return n
}

func (r *rewriter) all(nodes []ast.Node, s *scope) {
	for i := range nodes {
		nodes[i] = r.rewrite(nodes[i], s)
	}
}

func (r *rewriter) binary(n *ast.BinaryNode, s *scope) ast.Node {
	n.Left, n.Right = r.rewrite(n.Left, s), r.rewrite(n.Right, s)
	switch n.Operator {
	case "<":
		return call(n, less, n.Left, n.Right)
	case ">":
		return call(n, greater, n.Left, n.Right)
	case "<=":
		return call(n, lessOrEqual, n.Left, n.Right)
	case ">=":
		return call(n, greaterOrEqual, n.Left, n.Right)
	case "==", "!=":
		if plain(n.Left) || plain(n.Right) {
			return n // expr's own comparison is exact and faster
		}
		eq := call(n, equal, n.Left, n.Right)
		if n.Operator == "==" {
			return eq
		}
		return at(n, &ast.UnaryNode{Operator: "not", Node: eq})
	case "in":
		if words, ok := stringList(n.Right); ok {
			return call(n, func(v any) bool { t, ok := v.(string); return ok && words[t] }, n.Left)
		}
		return call(n, in, n.Left, n.Right)
	case "and", "&&", "or", "||":
		n.Left, n.Right = condition(n.Left), condition(n.Right)
	case "+":
		return call(n, add, numeric(n.Left), numeric(n.Right))
	case "-", "*", "/", "%", "**", "^":
		n.Left, n.Right = numeric(n.Left), numeric(n.Right)
	}
	return n
}

func (r *rewriter) call(n *ast.CallNode, s *scope) ast.Node {
	r.all(n.Arguments, s)
	switch callee := n.Callee.(type) {
	case *ast.IdentifierNode:
		if _, ok := r.config.Functions[callee.Value]; !ok {
			return r.fail(n, "there is no function %s%s", callee.Value, didYouMean(callee.Value, functionNames(r.config)))
		}
	case *ast.MemberNode: // a method of a time, as in date(time).Year()
		callee.Node = r.rewrite(callee.Node, s)
	default:
		return r.fail(n, "this cannot be called")
	}
	return n
}

// needs says what the arguments of a builtin must be made safe for.
type needs struct {
	list      bool // the first is looped over
	condition bool // the second is a predicate
	number    bool // the first is a number
	walked    bool // all of every argument is visited
}

func needsOf(name string) needs {
	switch name {
	case "all", "none", "any", "one", "filter", "count", "find", "findIndex", "findLast", "findLastIndex":
		return needs{list: true, condition: true}
	case "map", "sum", "groupBy", "sortBy", "reduce":
		return needs{list: true}
	case "float", "abs", "ceil", "floor", "round":
		return needs{number: true}
	case "toJSON", "flatten", "string", "uniq", "min", "max", "mean", "median":
		return needs{walked: true}
	}
	return needs{}
}

func (r *rewriter) builtin(n *ast.BuiltinNode, s *scope) ast.Node {
	if r.config.Disabled[n.Name] {
		return r.fail(n, "there is no function %s", n.Name)
	}
	r.all(n.Arguments, s)
	need := needsOf(n.Name)
	for i, arg := range n.Arguments {
		switch {
		case need.walked:
			n.Arguments[i] = call(arg, measured, arg)
			if n.Name == "uniq" {
				n.Arguments[i] = call(arg, innerList, n.Arguments[i])
			}
		case n.Name == "len":
			n.Arguments[i] = call(arg, length, arg)
		case i == 0 && need.list && r.nested > 0:
			n.Arguments[0] = call(arg, innerList, arg)
		case i == 0 && need.list:
			n.Arguments[0] = call(arg, list, arg)
		case i == 0 && n.Name == "int":
			n.Arguments[0] = call(arg, whole, arg)
		case i == 0 && need.number:
			n.Arguments[0] = numeric(arg)
		case i == 1 && need.condition:
			if p, ok := arg.(*ast.PredicateNode); ok {
				p.Node = condition(p.Node)
			}
		}
	}
	return n
}

// at gives a new node the place of the old one, for errors.
func at(old, n ast.Node) ast.Node {
	n.SetLocation(old.Location())
	return n
}

// call makes a node that calls fn, whose type is one of those the machine calls
// without allocating: func(any) any, func(any, any) bool and the like.
func call(old ast.Node, fn any, args ...ast.Node) ast.Node {
	return at(old, &ast.CallNode{Callee: at(old, &ast.ConstantNode{Value: fn}), Arguments: args})
}

// condition makes n give a boolean: nil counts as false.
func condition(n ast.Node) ast.Node {
	if isBool(n) {
		return n
	}
	return call(n, truth, n)
}

func isBool(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BoolNode:
		return true
	case *ast.UnaryNode:
		return n.Operator == "not" || n.Operator == "!"
	case *ast.BinaryNode:
		switch n.Operator {
		case "==", "!=", "and", "&&", "or", "||", "contains", "startsWith", "endsWith", "matches":
			return true
		}
	case *ast.BuiltinNode:
		return n.Name == "all" || n.Name == "none" || n.Name == "any" || n.Name == "one"
	case *ast.CallNode:
		if c, ok := n.Callee.(*ast.ConstantNode); ok {
			switch c.Value.(type) {
			case func(any) bool, func(any, any) bool:
				return true
			}
		}
	}
	return false
}

// numeric makes n usable in arithmetic.
func numeric(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		return n
	case *ast.BinaryNode:
		if n.Operator != "??" {
			return n
		}
	}
	return call(n, number, n)
}

// plain reports whether n is a literal that equals only values of its own type.
func plain(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.BoolNode, *ast.NilNode:
		return true
	}
	return false
}

func stringList(n ast.Node) (map[string]bool, bool) {
	a, ok := n.(*ast.ArrayNode)
	if !ok {
		return nil, false
	}
	words := make(map[string]bool, len(a.Nodes))
	for _, x := range a.Nodes {
		s, ok := x.(*ast.StringNode)
		if !ok {
			return nil, false
		}
		words[s.Value] = true
	}
	return words, true
}
