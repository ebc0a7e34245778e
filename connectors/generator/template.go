package generator

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"millrace/bus/event"
)

// template is text with placeholders, cut up once.
type template struct {
	parts []part
}

// part is text, or where name is set a placeholder.
type part struct {
	text   string
	name   string
	low    int64
	high   int64
	values []string
	inText bool // inside a JSON string
}

// parseTemplate cuts text up. The error says which placeholder is wrong.
func parseTemplate(s string) (template, error) {
	var t template
	inText := false
	for {
		before, rest, found := strings.Cut(s, "{{")
		inText = quoted(before, inText)
		if before != "" {
			t.parts = append(t.parts, part{text: before})
		}
		if !found {
			return t, nil
		}
		inner, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return t, fmt.Errorf("{{%s has no }}", rest)
		}
		p, err := parsePlaceholder(inner)
		if err != nil {
			return t, err
		}
		p.inText = inText
		t.parts = append(t.parts, p)
		s = after
	}
}

// quoted reports whether a JSON string is open after text.
func quoted(text string, open bool) bool {
	for i := 0; i < len(text); i++ {
		switch {
		case open && text[i] == '\\':
			i++
		case text[i] == '"':
			open = !open
		}
	}
	return open
}

func parsePlaceholder(inner string) (part, error) {
	words := strings.Fields(inner)
	wrong := fmt.Errorf("{{%s}} is not known: use {{n}}, {{uuid}}, {{now}}, {{bool}}, {{random 1 100}}, {{float 1 100}} or {{oneof red green}}", inner)
	if len(words) == 0 {
		return part{}, wrong
	}
	p := part{name: words[0]}
	switch {
	case len(words) == 1 && (p.name == "n" || p.name == "uuid" || p.name == "now" || p.name == "bool"):
	case len(words) == 3 && (p.name == "random" || p.name == "float"):
		var err1, err2 error
		p.low, err1 = strconv.ParseInt(words[1], 10, 64)
		p.high, err2 = strconv.ParseInt(words[2], 10, 64)
		if err1 != nil || err2 != nil || p.high < p.low || p.high-p.low < 0 || p.high-p.low == 1<<63-1 {
			return part{}, fmt.Errorf("{{%s}} needs two whole numbers, the lower one first", inner)
		}
	case len(words) > 1 && p.name == "oneof":
		p.values = words[1:]
	default:
		return part{}, wrong
	}
	return p, nil
}

// append fills the template for event number n. r is seeded by n.
func (t *template) append(dst []byte, n int64, r *rand.Rand, now time.Time) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		switch p.name {
		case "":
			dst = append(dst, p.text...)
		case "n":
			dst = strconv.AppendInt(dst, n, 10)
		case "random":
			dst = strconv.AppendInt(dst, p.low+r.Int64N(p.high-p.low+1), 10)
		case "float":
			dst = strconv.AppendFloat(dst, float64(p.low)+r.Float64()*float64(p.high-p.low), 'f', 2, 64)
		case "bool":
			dst = strconv.AppendBool(dst, r.IntN(2) == 1)
		case "oneof":
			dst = p.appendText(dst, p.values[r.IntN(len(p.values))])
		case "now":
			dst = p.appendText(dst, now.UTC().Format(time.RFC3339Nano))
		case "uuid":
			a, b := r.Uint64(), r.Uint64()
			dst = p.appendText(dst, fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff))
		}
	}
	return dst
}

// appendText adds quotes where the placeholder does not stand inside a string.
func (p *part) appendText(dst []byte, s string) []byte {
	if p.inText {
		quoted := event.AppendQuoted(nil, s)
		return append(dst, quoted[1:len(quoted)-1]...)
	}
	return event.AppendQuoted(dst, s)
}

// check reports whether the template makes JSON.
func (t *template) check() error {
	sample := t.append(nil, 1, rand.New(rand.NewPCG(0, 1)), time.Unix(0, 0))
	if !json.Valid(sample) {
		return fmt.Errorf("it makes %s, which is not valid JSON", sample)
	}
	return nil
}
