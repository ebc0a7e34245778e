package exprs

import (
	"strings"
	"unsafe"

	"millrace/bus/event"

	"github.com/expr-lang/expr/vm"
	"github.com/tidwall/gjson"
)

// Cache is what several expressions on one event share: attributes are boxed and
// data is looked through or decoded at most once. It belongs to one goroutine;
// the zero value is ready once Reset has given it an event.
type Cache struct {
	e      *event.Event
	env    map[string]any // by variable.key
	data   state
	passes int // over the raw data, for its plain paths
	vm     vm.VM
}

type state uint8

const (
	unread  state = iota
	raw           // valid JSON, not decoded
	decoded       // env["data"] holds it
	broken        // says it is JSON but is not
)

// maxPasses is after how many walks for plain paths decoding all of the data
// comes cheaper.
const maxPasses = 8

// Reset makes c hold e and forget the event before. Neither e nor its Data may
// change while c is used on it.
func (c *Cache) Reset(e *event.Event) {
	if c.env == nil {
		c.env = make(map[string]any)
	}
	clear(c.env)
	c.e, c.data, c.passes = e, unread, 0
}

// load makes sure that all variables of x are in the environment.
func (c *Cache) load(x *Expr) error {
	missing := false
	for i := range x.vars {
		v := &x.vars[i]
		if _, ok := c.env[v.key]; ok {
			continue
		}
		switch v.from {
		case fromAttribute:
			c.env[v.key] = nil
			if s, ok := c.e.Get(v.name); ok {
				c.env[v.key] = s
			}
		case fromExtension:
			c.env[v.key] = extension(c.e, v.name)
		case fromExtensions:
			m := make(map[string]any, len(c.e.Ext))
			for i := range c.e.Ext {
				m[c.e.Ext[i].Name] = attr(&c.e.Ext[i])
			}
			c.env[v.key] = m
		case fromData:
			missing = true
		}
	}
	if !missing {
		return nil
	}
	return c.loadData(x)
}

func (c *Cache) loadData(x *Expr) error {
	if c.data == unread {
		c.read()
	}
	if c.data == broken {
		return &Error{Msg: "data is not valid JSON though its content type says so"}
	}
	if c.data == raw && (x.paths.whole || c.passes == maxPasses) {
		c.env["data"] = decode(parse(c.e.Data))
		c.data = decoded
	}
	if c.data == raw {
		c.passes++
		x.paths.clear(c.env)
		x.paths.walk(parse(c.e.Data), c.env)
		return nil
	}
	data := c.env["data"]
	for i := range x.vars {
		if v := &x.vars[i]; v.from == fromData && len(v.path) > 0 {
			c.env[v.key] = v.find(data)
		}
	}
	return nil
}

// read decides what data is to expressions: JSON, the text of a text/… payload,
// or nothing.
func (c *Cache) read() {
	switch e := c.e; {
	case len(e.Data) == 0:
		c.env["data"], c.data = nil, decoded
	case e.JSON():
		c.data = broken
		if valid(e.Data) {
			c.data = raw
		}
	case strings.HasPrefix(e.ContentType, "text/"):
		c.env["data"], c.data = unsafe.String(unsafe.SliceData(e.Data), len(e.Data)), decoded
	default:
		c.env["data"], c.data = nil, decoded
	}
}

// find follows the path through decoded data.
func (v *variable) find(data any) any {
	for _, s := range v.path {
		if s.name != nil {
			m, _ := data.(map[string]any)
			data = m[*s.name]
			continue
		}
		a, _ := data.([]any)
		if s.index >= len(a) {
			return nil
		}
		data = a[s.index]
	}
	return data
}

func extension(e *event.Event, name string) any {
	for i := range e.Ext {
		if e.Ext[i].Name == name {
			return attr(&e.Ext[i])
		}
	}
	return nil
}

func attr(a *event.Attr) any {
	switch a.Kind {
	case event.Bool:
		return a.Value == "true"
	case event.Int:
		return decodeNumber(a.Value)
	case event.String:
	}
	return a.Value
}

// fetch is the plain paths of an expression as a tree, so that one walk over raw
// data finds them all.
type fetch struct {
	whole  bool   // all of data is wanted, which decides for decoding
	key    string // variable that ends here; "" if none does
	names  map[string]*fetch
	elems  map[int]*fetch
	single string // the only name, where there is one: most nodes
	only   *fetch
}

func newFetch(vars []variable) *fetch {
	root := &fetch{}
	for _, v := range vars {
		if v.from != fromData {
			continue
		}
		if len(v.path) == 0 {
			root.whole = true
			continue
		}
		n := root
		for _, s := range v.path {
			n = n.child(s)
		}
		n.key = v.key
	}
	return root
}

func (f *fetch) child(s step) *fetch {
	if s.name == nil {
		if f.elems == nil {
			f.elems = map[int]*fetch{}
		}
		if f.elems[s.index] == nil {
			f.elems[s.index] = &fetch{}
		}
		return f.elems[s.index]
	}
	if f.names == nil {
		f.names = map[string]*fetch{}
	}
	if f.names[*s.name] == nil {
		f.names[*s.name] = &fetch{}
	}
	f.single, f.only = "", nil
	if len(f.names) == 1 {
		f.single, f.only = *s.name, f.names[*s.name]
	}
	return f.names[*s.name]
}

func (f *fetch) name(k string) *fetch {
	if f.only != nil {
		if k == f.single {
			return f.only
		}
		return nil
	}
	return f.names[k]
}

// clear sets everything at and below f to nil: not found yet.
func (f *fetch) clear(env map[string]any) {
	if f.key != "" {
		env[f.key] = nil
	}
	for _, n := range f.names {
		n.clear(env)
	}
	for _, n := range f.elems {
		n.clear(env)
	}
}

// walk puts what r holds at and below f into env. Of a key given twice the last
// counts, as in decode.
func (f *fetch) walk(r gjson.Result, env map[string]any) {
	if f.key != "" {
		env[f.key] = decode(r)
	}
	switch {
	case f.names != nil && r.IsObject():
		r.ForEach(func(k, v gjson.Result) bool {
			if n := f.name(k.Str); n != nil {
				n.clear(env)
				n.walk(v, env)
			}
			return true
		})
	case f.elems != nil && r.IsArray():
		i := 0
		r.ForEach(func(_, v gjson.Result) bool {
			if n := f.elems[i]; n != nil {
				n.walk(v, env)
			}
			i++
			return true
		})
	}
}
