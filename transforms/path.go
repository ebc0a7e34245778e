package transforms

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"millrace/bus/event"
)

// Path is a place in an event: an attribute ("type", "ext.region"), all of data
// ("data") or something in it ("data.items[0].sku", "data.items[*].sku"). A dot, bracket
// or backslash of a key is written with a backslash before it.
type Path struct {
	src  string
	attr string // name of the attribute, "" = data
	segs []seg
	star bool // has [*]
}

// seg is one step into data.
type seg struct {
	key   string
	index int // of a list; whole = [*]
	list  bool
}

// whole is the index of [*]: every element.
const whole = -1

// ParsePath reads a path. Its errors say what is wrong with the path, which the
// caller names.
func ParsePath(src string) (Path, error) {
	p := Path{src: src}
	segs, err := parseSegs(src)
	if err != nil {
		return Path{}, err
	}
	first := segs[0]
	switch {
	case first.list:
		return Path{}, errors.New(`a path begins with an attribute's name or with "data"`)
	case first.key == "data":
		p.segs = segs[1:]
		for _, s := range p.segs {
			p.star = p.star || s.list && s.index == whole
		}
		return p, nil
	case first.key == "ext" && len(segs) == 2 && !segs[1].list:
		p.attr = segs[1].key
		if coreAttribute(p.attr) {
			return Path{}, fmt.Errorf("%s is not an extension: write %s", src, p.attr)
		}
	case len(segs) > 1:
		return Path{}, fmt.Errorf("%s is an attribute and has nothing inside: for a field of the payload write data.%s", first.key, src)
	default:
		p.attr = first.key
	}
	if _, err := (event.Event{}).Set(p.attr, ""); err != nil && !coreAttribute(p.attr) {
		return Path{}, fmt.Errorf("%w; a field of the payload is data.%s", err, src)
	}
	return p, nil
}

func parseSegs(src string) ([]seg, error) {
	if src == "" {
		return nil, errors.New("a path must not be empty")
	}
	var segs []seg
	for i := 0; i < len(src); {
		if src[i] == '[' {
			end := strings.IndexByte(src[i:], ']')
			if end < 0 {
				return nil, errors.New("the bracket is not closed")
			}
			s := seg{list: true, index: whole}
			if inside := src[i+1 : i+end]; inside != "*" {
				n, err := strconv.ParseUint(inside, 10, 31)
				if err != nil {
					return nil, fmt.Errorf(`[%s] is not an index such as [0] (a bracket in a key is written \[)`, inside)
				}
				s.index = int(n)
			}
			segs = append(segs, s)
			i += end + 1
			if i < len(src) && src[i] != '[' && src[i] != '.' {
				return nil, errors.New("a dot is missing after ]")
			}
			continue
		}
		if len(segs) > 0 {
			i++ // the dot
		}
		key, n, err := parseKey(src[i:])
		if err != nil {
			return nil, err
		}
		segs = append(segs, seg{key: key})
		i += n
	}
	return segs, nil
}

// parseKey reads a key up to the next dot or bracket.
func parseKey(src string) (key string, n int, err error) {
	var b strings.Builder
	for n < len(src) && src[n] != '.' && src[n] != '[' {
		switch src[n] {
		case '\\':
			n++
			if n == len(src) || strings.IndexByte(`.[]\`, src[n]) < 0 {
				return "", 0, errors.New(`a backslash stands only before a dot, a bracket or a backslash`)
			}
		case ']':
			return "", 0, errors.New(`a bracket in a key is written \]`)
		}
		b.WriteByte(src[n])
		n++
	}
	if b.Len() == 0 {
		return "", 0, errors.New("a key is missing (two dots, or a dot at the end)")
	}
	return b.String(), n, nil
}

// String is the path as it was written.
func (p *Path) String() string { return p.src }

// isData reports whether the path leads to data or into it.
func (p *Path) isData() bool { return p.attr == "" }

// upTo names the place in data that the first n steps lead to.
func upTo(segs []seg, n int) string {
	var b strings.Builder
	b.WriteString("data")
	for _, s := range segs[:n] {
		switch {
		case s.list && s.index == whole:
			b.WriteString("[*]")
		case s.list:
			fmt.Fprintf(&b, "[%d]", s.index)
		default:
			b.WriteByte('.')
			b.WriteString(escapeKey(s.key))
		}
	}
	return b.String()
}

// escapeKey writes a key as paths do.
func escapeKey(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if strings.IndexByte(`\.[]`, key[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(key[i])
	}
	return b.String()
}

func coreAttribute(name string) bool {
	switch name {
	case "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "partitionkey":
		return true
	}
	return false
}

// canSet says why an attribute cannot be changed by a step, or nil.
func canSet(name string) error {
	switch {
	case name == "id" || name == "specversion":
		return fmt.Errorf("%s stays as it is: an event keeps its identity through a rule", name)
	case event.Reserved(name):
		return fmt.Errorf("%s belongs to Millrace and cannot be set", name)
	}
	return nil
}

// under reports whether a leads to b or to something that b is part of.
func under(b, a []seg) bool {
	if len(a) > len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// related reports whether one place is the other or part of it.
func related(a, b *Path) bool {
	if a.attr != b.attr {
		return false
	}
	return !a.isData() || under(a.segs, b.segs) || under(b.segs, a.segs)
}
