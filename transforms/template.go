package transforms

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"millrace/bus/event"
)

type templateConfig struct {
	Template json.RawMessage `json:"template" doc:"The new data: any JSON, whose texts may hold ${path}." spec:"required"`
	Missing  string          `json:"missing" doc:"What a path that leads to nothing gives: null (within a text: nothing), omit (the member or element is left out), or fail (the event fails)." default:"null" spec:"enum=null|omit|fail"`
	common
}

func templateKind() Kind {
	return kindOfStep(Kind{
		Name:    "template",
		Summary: "Makes new data from a JSON template with variables.",
		Docs: `A text that is one variable and nothing else, ` + "`\"${data.items}\"`" + `, becomes the value itself with its type: a
number stays a number, an object an object, all byte for byte. Within a text a variable is inserted as text; an object or
list as its JSON text. Attributes are ` + "`${type}`, `${ext.region}`" + ` and so on; ` + "`$${`" + ` is a plain ` + "`${`" + `. Keys hold no variables. The
new data is JSON, whatever the old was; ` + "`${data}`" + ` of an event that is not JSON is its text.`,
		Example: "template: {order: \"${data.id}\", note: \"${data.count} pieces for ${subject}\"}\nmissing: omit",
	}, func(_ *compiler, config templateConfig) (step, error) {
		st := &templateStep{missing: config.Missing}
		var err error
		if st.root, err = compileTemplate(config.Template, "template"); err != nil {
			return nil, err
		}
		return st, nil
	})
}

type templateStep struct {
	root    *node
	missing string
}

// node is a part of a template. The raw text of a part without variables is
// copied as it is.
type node struct {
	raw     []byte   // JSON without variables
	parts   []part   // a text
	alone   bool     // a text that is one variable
	open    byte     // '{' or '[': has members
	members []member // in their order
}

type member struct {
	key []byte // with quotes and colon; empty in a list
	*node
}

// part is a piece of a text: literal (already escaped for JSON) or a variable.
type part struct {
	literal []byte
	path    *Path
}

func compileTemplate(raw json.RawMessage, field string) (*node, error) {
	if c := raw[0]; c != '{' && c != '[' && c != '"' {
		return &node{raw: raw}, nil
	}
	if raw[0] == '"' {
		text, err := event.Unquote(raw)
		if err != nil {
			return nil, at(field, err)
		}
		n, err := compileText(text)
		if err != nil {
			return nil, at(field, err)
		}
		return n, nil
	}
	n := &node{open: raw[0]}
	fixed := true
	w := walkAt(raw, 0)
	for it := (item{}); w.next(&it); {
		m := member{}
		inner := fmt.Sprintf("%s[%d]", field, it.index)
		if !w.list {
			m.key = append(raw[it.key:it.kend:it.kend], ':')
			inner = field + "." + keyOf(raw, &it)
		}
		var err error
		if m.node, err = compileTemplate(raw[it.val:it.vend], inner); err != nil {
			return nil, err
		}
		fixed = fixed && m.raw != nil
		n.members = append(n.members, m)
	}
	if w.err != nil {
		return nil, w.err
	}
	if fixed {
		return &node{raw: raw}, nil
	}
	return n, nil
}

// compileText reads a text with variables.
func compileText(text string) (*node, error) {
	n := &node{}
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			quoted := event.AppendQuoted(nil, lit.String())
			n.parts = append(n.parts, part{literal: quoted[1 : len(quoted)-1]})
			lit.Reset()
		}
	}
	for rest := text; rest != ""; {
		i := strings.Index(rest, "${")
		if i < 0 {
			lit.WriteString(rest)
			break
		}
		if i > 0 && rest[i-1] == '$' {
			lit.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		lit.WriteString(rest[:i])
		end := strings.IndexByte(rest[i:], '}')
		if end < 0 {
			return nil, errors.New("${ is not closed by } (a plain ${ is written $${)")
		}
		p, err := ParsePath(strings.TrimSpace(rest[i+2 : i+end]))
		if err == nil && p.star {
			err = errors.New("[*] is for remove, keep and cast")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rest[i:i+end+1], err)
		}
		flush()
		n.parts = append(n.parts, part{path: &p})
		rest = rest[i+end+1:]
	}
	flush()
	switch {
	case len(n.parts) == 0:
		return &node{raw: []byte(`""`)}, nil
	case len(n.parts) == 1 && n.parts[0].path == nil:
		raw := append([]byte{'"'}, n.parts[0].literal...)
		return &node{raw: append(raw, '"')}, nil
	}
	n.alone = len(n.parts) == 1
	return n, nil
}

func (st *templateStep) apply(_ *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	if e.Tombstone() {
		return append(out, e), nil
	}
	data, ok, err := st.render(make([]byte, 0, 256), &e, st.root)
	if err != nil {
		return out, err
	}
	if !ok {
		return out, errors.New("the whole template is a variable without a value, which cannot be omitted")
	}
	e.Data = data
	if !e.JSON() {
		e.ContentType = "application/json"
	}
	return append(out, e), nil
}

// render appends n's value; ok false says to leave it out.
func (st *templateStep) render(dst []byte, e *event.Event, n *node) (out []byte, ok bool, err error) {
	switch {
	case n.raw != nil:
		return append(dst, n.raw...), true, nil
	case n.alone:
		return st.variable(dst, e, n.parts[0].path, false)
	case n.open == 0:
		dst = append(dst, '"')
		for i := range n.parts {
			if n.parts[i].path == nil {
				dst = append(dst, n.parts[i].literal...)
			} else if dst, ok, err = st.variable(dst, e, n.parts[i].path, true); err != nil || !ok {
				return dst, ok, err
			}
		}
		return append(dst, '"'), true, nil
	}
	dst = append(dst, n.open)
	first := true
	for i := range n.members {
		m := &n.members[i]
		before := len(dst)
		if !first {
			dst = append(dst, ',')
		}
		dst = append(dst, m.key...)
		if dst, ok, err = st.render(dst, e, m.node); err != nil {
			return dst, false, err
		}
		if !ok {
			dst = dst[:before]
			continue
		}
		first = false
	}
	return append(dst, n.open+2), true, nil // ']' and '}' stand two behind '[' and '{'
}

// variable appends the value at p, within a text or as it is.
func (st *templateStep) variable(dst []byte, e *event.Event, p *Path, inText bool) (out []byte, ok bool, err error) {
	before := len(dst)
	var found bool
	switch {
	case !p.isData():
		dst, found = getAttr(dst, e, p.attr)
	case len(p.segs) == 0 && !e.JSON():
		if !utf8.Valid(e.Data) {
			return dst, false, fmt.Errorf("${data} is neither JSON nor text: datacontenttype is %q", e.ContentType)
		}
		dst, found = event.AppendQuoted(dst, string(e.Data)), true
	default:
		if err := needJSON(e); err != nil {
			return dst, false, fmt.Errorf("${%s}: %w", p.src, err)
		}
		var from, to int
		if from, to, found, err = locate(e.Data, p.segs); err != nil {
			return dst, false, err
		}
		if found {
			dst = append(dst, e.Data[from:to]...)
		}
	}
	switch {
	case !found && st.missing == "fail":
		return dst, false, fmt.Errorf("${%s} leads to nothing", p.src)
	case !found && st.missing == "omit":
		return dst, false, nil
	case !found && inText:
		return dst, true, nil
	case !found:
		return append(dst, "null"...), true, nil
	case !inText:
		return dst, true, nil
	}
	switch raw := dst[before:]; raw[0] {
	case '"': // its inside is escaped already
		copy(raw, raw[1:len(raw)-1])
		dst = dst[:len(dst)-2]
	case '{', '[':
		quoted := event.AppendQuoted(nil, string(raw))
		dst = append(dst[:before], quoted[1:len(quoted)-1]...)
	}
	return dst, true, nil
}
