package load

import (
	"fmt"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Bounds of a page. Converting elements recurses, and each list or quotation
// around a line writes it anew.
const (
	maxTags   = 500_000
	maxDepth  = 256
	maxIndent = 12 // lists and quotations in one another
)

// html makes Markdown of a page's main content: its main or only article element,
// else its body, without what surrounds the content.
func (d *Document) html() error {
	if n := strings.Count(d.Text, "<"); n > maxTags {
		return fmt.Errorf("%w: %d tags, the limit is %d", ErrTooLarge, n, maxTags)
	}
	doc, err := html.Parse(strings.NewReader(d.Text))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	p := page{d: d}
	if err := p.look(doc, 0, 0); err != nil {
		return err
	}
	root := doc
	switch {
	case p.main != nil:
		root = p.main
	case len(p.articles) == 1:
		root = p.articles[0]
	case p.body != nil:
		root = p.body
	}
	clean(root, root != p.body && root != doc)
	conv := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	out, err := conv.ConvertNode(root)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d.Text = strings.TrimSpace(string(out))
	if d.Title = p.title; d.Title == "" {
		d.Title = p.h1
	}
	return nil
}

// page is what a look at a document finds.
type page struct {
	d          *Document
	title, h1  string
	body, main *html.Node
	articles   []*html.Node // outermost ones
}

var errDeep = fmt.Errorf("%w: its elements are nested too deep", ErrMalformed)

func (p *page) look(n *html.Node, depth, indent int) error {
	if n.DataAtom == atom.Ul || n.DataAtom == atom.Ol || n.DataAtom == atom.Blockquote {
		indent++
	}
	if depth > maxDepth || indent > maxIndent {
		return errDeep
	}
	inArticle := false
	if n.Type == html.ElementNode {
		switch {
		case n.DataAtom == atom.Title && p.title == "":
			p.title = textOf(n)
		case n.DataAtom == atom.H1 && p.h1 == "":
			p.h1 = textOf(n)
		case n.DataAtom == atom.Body:
			p.body = n
		case n.DataAtom == atom.Main && p.main == nil, attr(n, "role") == "main" && p.main == nil:
			p.main = n
		case n.DataAtom == atom.Article:
			p.articles = append(p.articles, n)
			inArticle = true
		case n.DataAtom == atom.Html:
			p.set("language", attr(n, "lang"))
		case n.DataAtom == atom.Meta && strings.EqualFold(attr(n, "name"), "description"):
			p.set("description", attr(n, "content"))
		}
	}
	articles := len(p.articles)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if err := p.look(c, depth+1, indent); err != nil {
			return err
		}
	}
	if inArticle {
		p.articles = p.articles[:articles]
	}
	return nil
}

func (p *page) set(key, value string) {
	if value = strings.TrimSpace(value); value == "" {
		return
	}
	if p.d.Metadata == nil {
		p.d.Metadata = map[string]any{}
	}
	p.d.Metadata[key] = value
}

// clean takes out what is no content. Headers inside the main content are content.
func clean(n *html.Node, main bool) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if noise(c, main) {
			n.RemoveChild(c)
		} else {
			clean(c, main || c.DataAtom == atom.Article)
		}
		c = next
	}
}

func noise(n *html.Node, main bool) bool {
	if n.Type == html.CommentNode {
		return true
	}
	if n.Type != html.ElementNode {
		return false
	}
	switch n.Data {
	case "script", "style", "noscript", "template", "nav", "aside", "form", "iframe", "svg", "object", "embed",
		"button", "input", "select", "textarea", "canvas", "dialog", "head":
		return true
	case "header", "footer":
		return !main
	}
	switch attr(n, "role") {
	case "navigation", "banner", "contentinfo", "search", "complementary":
		return true
	}
	_, hidden := find(n, "hidden")
	return hidden || attr(n, "aria-hidden") == "true"
}

func attr(n *html.Node, name string) string {
	value, _ := find(n, name)
	return value
}

func find(n *html.Node, name string) (string, bool) {
	for i := range n.Attr {
		if n.Attr[i].Key == name {
			return n.Attr[i].Val, true
		}
	}
	return "", false
}

// textOf is a node's text on one line.
func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
			b.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
