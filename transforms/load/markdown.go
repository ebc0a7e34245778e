package load

import (
	"fmt"
	"strings"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
	"go.yaml.in/yaml/v4"
)

const maxFrontMatter = 64 << 10

// markdown takes the front matter out and finds the title: the front matter's,
// else the first heading.
func (d *Document) markdown() error {
	body, front, ok := frontMatter(d.Text)
	if ok {
		d.Text = body
		if err := d.metadata(front); err != nil {
			return err
		}
		if title, ok := d.Metadata["title"].(string); ok {
			d.Title = title
		}
	}
	if d.Title == "" {
		d.Title = firstHeading(d.Text)
	}
	return nil
}

// frontMatter parts YAML between --- lines from what follows.
func frontMatter(all string) (body, front string, ok bool) {
	rest, ok := strings.CutPrefix(all, "---\n")
	if !ok {
		if rest, ok = strings.CutPrefix(all, "---\r\n"); !ok {
			return all, "", false
		}
	}
	for at := 0; at < len(rest); {
		line, _, _ := strings.Cut(rest[at:], "\n")
		next := min(at+len(line)+1, len(rest))
		if mark := strings.TrimRight(line, " \t\r"); mark == "---" || mark == "..." {
			return rest[next:], rest[:at], true
		}
		at = next
	}
	return all, "", false // a line across the page, no front matter
}

func (d *Document) metadata(front string) error {
	if len(front) > maxFrontMatter {
		return fmt.Errorf("%w: the front matter has %d bytes, the limit is %d", ErrTooLarge, len(front), maxFrontMatter)
	}
	var raw map[string]any
	if err := yaml.Unmarshal([]byte(front), &raw); err != nil {
		return fmt.Errorf("%w: front matter: %w", ErrMalformed, err)
	}
	budget := 10000
	for key, value := range raw {
		v, ok := plain(value, 0, &budget)
		if !ok {
			return fmt.Errorf("%w: front matter: %s is nested too deep or too long", ErrMalformed, key)
		}
		if d.Metadata == nil {
			d.Metadata = map[string]any{}
		}
		d.Metadata[key] = v
	}
	return nil
}

// plain makes what YAML gave fit for JSON.
func plain(v any, depth int, budget *int) (any, bool) {
	if *budget--; *budget < 0 || depth > 20 {
		return nil, false
	}
	switch v := v.(type) {
	case time.Time:
		if v.Equal(v.Truncate(24 * time.Hour)) {
			return v.Format(time.DateOnly), true
		}
		return v.Format(time.RFC3339Nano), true
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var ok bool
			if out[i], ok = plain(v[i], depth+1, budget); !ok {
				return nil, false
			}
		}
		return out, true
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			var ok bool
			if out[key], ok = plain(item, depth+1, budget); !ok {
				return nil, false
			}
		}
		return out, true
	case nil, string, bool, int, int64, uint64:
		return v, true
	case float64:
		if v-v != 0 { // infinite or no number
			return fmt.Sprint(v), true
		}
		return v, true
	}
	return fmt.Sprint(v), true
}

// headingBytes is how far into a document its title is looked for.
const headingBytes = 16 << 10

// firstHeading is the text of the first heading of the first level there is.
func firstHeading(source string) string {
	if len(source) > headingBytes {
		cut := strings.LastIndexByte(source[:headingBytes], '\n')
		source = source[:max(cut, 0)]
	}
	src := []byte(source)
	title, level := "", 7
	for n := goldmark.DefaultParser().Parse(text.NewReader(src)).FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Level < level {
			if t := strings.TrimSpace(inline(h, src, 0)); t != "" {
				title, level = t, h.Level
			}
		}
	}
	return title
}

// inline is the text of a node without its marks.
func inline(n ast.Node, src []byte, depth int) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil && depth < 50; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.Write(c.Segment.Value(src))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(c.Value)
		default:
			b.WriteString(inline(c, src, depth+1))
		}
	}
	return b.String()
}
