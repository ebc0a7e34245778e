package pattern

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// operators are what an alternative may use.
func operators() []string {
	return []string{"prefix", "suffix", "anything-but", "exists", "numeric"}
}

// unsupported are what other dialects have and this one refuses by name.
func unsupported() []string {
	return []string{"equals-ignore-case", "wildcard", "cidr", "contains", "exactly", "regex", "regexp", "shellstyle"}
}

// reserved are names that no field right below $or may have: the author most
// likely meant an operator.
func reserved() []string {
	return []string{
		"exactly", "prefix", "suffix", "anything-but", "exists", "wildcard", "numeric", "cidr",
		"equals-ignore-case", "=", "<", "<=", ">", ">=", "regex", "not-wildcard", "not-equals-ignore-case", "date-after",
		"date-on-or-after", "date-before", "date-on-or-before", "in-date-range", "ip-address-in-range", "ip-address-not-in-range",
	}
}

const supported = "exact values, prefix, suffix, anything-but, exists, numeric and $or"

// alternatives compiles the list at path. absent says that exists:false is among
// them; the leaf is nil if nothing else is.
func alternatives(v *jval, path string) (l *leaf, absent bool, err error) {
	if len(v.vals) == 0 {
		return nil, false, errorf(path, `is an empty list and would match nothing: give alternatives such as ["x"], or remove it`)
	}
	l = &leaf{}
	only := true
	for i, alt := range v.vals {
		at := indexed(path, i)
		switch alt.kind {
		case kindString:
			l.strs = append(l.strs, alt.s)
		case kindNumber:
			l.nums = append(l.nums, parseDecimal(alt.s))
		case kindTrue, kindFalse, kindNull:
			l.kinds |= 1 << alt.kind
		case kindArray:
			return nil, false, errorf(at, "is a list in a list: an alternative is a value or {operator: …}")
		case kindObject:
			missing, err := operator(l, alt, at)
			if err != nil {
				return nil, false, err
			}
			if missing {
				absent = true
				continue
			}
		}
		only = false
	}
	if only {
		return nil, absent, nil
	}
	l.seal()
	return l, absent, nil
}

// operator adds {op: operand} to l; missing says that it was exists:false.
func operator(l *leaf, v *jval, path string) (missing bool, err error) {
	if len(v.keys) == 0 {
		return false, errorf(path, "is an empty object: an alternative is a value or {operator: …}")
	}
	name, arg := v.keys[0], v.vals[0]
	at := join(path, name)
	var t test
	switch name {
	case "prefix", "suffix":
		if arg.kind == kindObject {
			return false, errorf(at, "with equals-ignore-case is not supported yet: give a string")
		}
		if arg.kind != kindString {
			return false, errorf(at, `needs a string, such as {%q: "x"}`, name)
		}
		t = test{op: opPrefix, strs: []string{arg.s}}
		if name == "suffix" {
			t.op = opSuffix
		}
	case "anything-but":
		t, err = anythingBut(arg, at)
	case "numeric":
		t, err = numeric(arg, at)
	case "exists":
		if arg.kind != kindTrue && arg.kind != kindFalse {
			return false, errorf(at, "needs true or false")
		}
	default:
		return false, unknownOperator(path, name)
	}
	if err != nil {
		return false, err
	}
	if len(v.keys) > 1 {
		return false, errorf(join(path, v.keys[1]), "is a second operator in one alternative: write each as its own {operator: …}")
	}
	switch {
	case name != "exists":
		l.tests = append(l.tests, t)
	case arg.kind == kindTrue:
		l.kinds |= anyKind
	default:
		missing = true
	}
	return missing, nil
}

func unknownOperator(path, name string) error {
	if slices.Contains(unsupported(), name) {
		return errorf(path, "operator %q is not supported yet; supported are %s", name, supported)
	}
	if near := Nearest(name, operators()); near != "" {
		return errorf(path, "unknown operator %q: did you mean %q?", name, near)
	}
	return errorf(path, "unknown operator %q; supported are %s", name, supported)
}

func anythingBut(v *jval, path string) (test, error) {
	const shapes = `a string, a number, a list of either, {"prefix": …} or {"suffix": …}`
	switch v.kind {
	case kindString, kindNumber:
		v = &jval{kind: kindArray, vals: []*jval{v}}
	case kindObject:
		if len(v.keys) != 1 {
			return test{}, errorf(path, "takes %s", shapes)
		}
		t := test{op: opNotPrefix}
		at := join(path, v.keys[0])
		switch v.keys[0] {
		case "prefix":
		case "suffix":
			t.op = opNotSuffix
		case "equals-ignore-case", "wildcard":
			return test{}, errorf(at, "is not supported yet in anything-but, which takes %s", shapes)
		default:
			return test{}, errorf(at, "is not known in anything-but, which takes %s", shapes)
		}
		arg := v.vals[0]
		if arg.kind == kindString {
			arg = &jval{kind: kindArray, vals: []*jval{arg}}
		}
		if arg.kind != kindArray || len(arg.vals) == 0 {
			return test{}, errorf(at, "needs a string or a list of strings")
		}
		for i, x := range arg.vals {
			if x.kind != kindString {
				return test{}, errorf(indexed(at, i), "is not a string")
			}
			t.strs = append(t.strs, x.s)
		}
		return t, nil
	case kindArray:
	case kindTrue, kindFalse, kindNull:
		return test{}, errorf(path, "takes %s", shapes)
	}
	if len(v.vals) == 0 {
		return test{}, errorf(path, "is an empty list: use {\"exists\": true} for any value")
	}
	t := test{op: opNotStrings}
	if v.vals[0].kind == kindNumber {
		t.op = opNotNumbers
	}
	for i, x := range v.vals {
		at := indexed(path, i)
		switch {
		case x.kind == kindString && t.op == opNotStrings:
			t.strs = append(t.strs, x.s)
		case x.kind == kindNumber && t.op == opNotNumbers:
			t.nums = append(t.nums, parseDecimal(x.s))
		case x.kind == kindString || x.kind == kindNumber:
			return test{}, errorf(at, "mixes strings and numbers: a list of anything-but holds one type")
		default:
			return test{}, errorf(at, "is neither string nor number; anything-but takes %s", shapes)
		}
	}
	return t, nil
}

func numeric(v *jval, path string) (test, error) {
	const shape = `such as ["=", 5], ["!=", 5], [">", 0] or [">=", 0, "<", 10]`
	t := test{op: opNumeric}
	if v.kind != kindArray || len(v.vals) != 2 && len(v.vals) != 4 {
		return t, errorf(path, "needs one or two comparisons, %s", shape)
	}
	for i := 0; i < len(v.vals); i += 2 {
		sign, operand := v.vals[i], v.vals[i+1]
		if sign.kind != kindString {
			return t, errorf(indexed(path, i), "is not a comparison; write them %s", shape)
		}
		if operand.kind != kindNumber {
			return t, errorf(indexed(path, i+1), "is not a number (a number has no quotes)")
		}
		if f, err := strconv.ParseFloat(operand.s, 64); err != nil || math.IsInf(f, 0) {
			return t, errorf(indexed(path, i+1), "%s is out of range: at most 1.8e308 either way", operand.s)
		}
		b := bound{set: true, n: parseDecimal(operand.s), inclusive: strings.HasSuffix(sign.s, "=")}
		two := len(v.vals) == 4
		switch {
		case (sign.s == "=" || sign.s == "!=") && !two:
			t.low, t.high, t.not = b, b, sign.s == "!="
			t.low.inclusive, t.high.inclusive = true, true
		case (sign.s == ">" || sign.s == ">=") && i == 0:
			t.low = b
		case (sign.s == "<" || sign.s == "<=") && (!two || i == 2):
			t.high = b
		default:
			return t, errorf(indexed(path, i), "%q does not fit here; write comparisons %s", sign.s, shape)
		}
	}
	if len(v.vals) == 4 && t.low.n.compare(t.high.n) >= 0 {
		return t, errorf(path, "is an empty range: the lower bound comes first and is smaller")
	}
	return t, nil
}
