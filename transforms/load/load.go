package load

import (
	"errors"
	"fmt"
	"mime"
	"path"
	"strings"
)

// Why a document cannot be read.
var (
	ErrTooLarge    = errors.New("the document is too large")
	ErrUnsupported = errors.New("the format is not supported")
	ErrEncoding    = errors.New("the document is not text in a known encoding")
	ErrMalformed   = errors.New("the document is malformed")
)

// The formats.
const (
	Auto     = "auto" // by media type, name and content
	Text     = "text"
	Markdown = "markdown"
	HTML     = "html"
	JSON     = "json"
	CSV      = "csv"
)

// Input is a document as it came.
type Input struct {
	Name      string // a file name, path or URL; its extension tells the format
	MediaType string // with parameters such as charset; may be empty
	Data      []byte
}

// Options say how to read. The zero value works.
type Options struct {
	Format    string // default Auto
	MaxBytes  int    // of the input, and of the text made of it; default 16 MiB
	TextField string // JSON: the dotted path of the text; "" = all of the data, line by line
	Title     string // JSON: the dotted path of the title; default "title" or "name"
}

// Document is a document that was read.
type Document struct {
	Text      string // in UTF-8; of HTML its main content as Markdown
	Title     string
	Format    string         // one of the formats, never Auto
	MediaType string         // without parameters
	Metadata  map[string]any // front matter, or a page's description and language; nil = none
}

// Load reads a document.
func Load(in Input, o Options) (Document, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = 16 << 20
	}
	if len(in.Data) > o.MaxBytes {
		return Document{}, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(in.Data), o.MaxBytes)
	}
	mediaType, params, err := mime.ParseMediaType(in.MediaType)
	if err != nil {
		mediaType, params = "", nil
	}
	if err := binary(in.Data); err != nil {
		return Document{}, err
	}
	d := Document{Format: o.Format, MediaType: mediaType}
	if d.Format == "" || d.Format == Auto {
		if d.Format, err = formatOf(in.Name, mediaType, in.Data); err != nil {
			return Document{}, err
		}
	}
	text, err := decode(in.Data, params["charset"], d.Format == HTML)
	if err != nil {
		return Document{}, err
	}
	d.Text = text
	switch d.Format {
	case Markdown:
		err = d.markdown()
	case HTML:
		err = d.html()
	case JSON:
		err = d.json(o)
	case CSV:
		err = d.csv(in.Name, o)
	case Text:
	default:
		return Document{}, fmt.Errorf("%w: %q is none of text, markdown, html, json and csv", ErrUnsupported, d.Format)
	}
	if err != nil {
		return Document{}, err
	}
	if len(d.Text) > o.MaxBytes {
		return Document{}, fmt.Errorf("%w: its text has %d bytes, the limit is %d", ErrTooLarge, len(d.Text), o.MaxBytes)
	}
	if d.MediaType == "" || d.MediaType == "application/octet-stream" {
		d.MediaType = map[string]string{Text: "text/plain", Markdown: "text/markdown", HTML: "text/html", JSON: "application/json", CSV: "text/csv"}[d.Format]
	}
	if d.Title == "" {
		d.Title = titleOf(in.Name)
	}
	return d, nil
}

// titleOf makes a title of a file's name: "guide/getting_started.md" is
// "getting started".
func titleOf(name string) string {
	base := path.Base(strings.ReplaceAll(name, `\`, "/"))
	if base == "." || base == "/" {
		return ""
	}
	if ext := path.Ext(base); len(ext) < len(base) {
		base = strings.TrimSuffix(base, ext)
	}
	return strings.Join(strings.FieldsFunc(base, func(r rune) bool { return r == '_' || r == '-' || r == ' ' }), " ")
}

// formatOf tells the format by media type, then by the name's extension, then by
// how the content begins. A name is more telling than text/plain and
// application/octet-stream.
func formatOf(name, mediaType string, data []byte) (string, error) {
	switch {
	case mediaType == "text/markdown" || mediaType == "text/x-markdown":
		return Markdown, nil
	case mediaType == "text/html" || mediaType == "application/xhtml+xml":
		return HTML, nil
	case mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json"):
		return JSON, nil
	case mediaType == "text/csv" || mediaType == "text/tab-separated-values":
		return CSV, nil
	}
	plain := mediaType == "" || mediaType == "text/plain" || mediaType == "application/octet-stream" || mediaType == "binary/octet-stream"
	if !plain && !strings.HasPrefix(mediaType, "text/") && !textual(mediaType) {
		return "", fmt.Errorf("%w: %s", ErrUnsupported, mediaType)
	}
	if !plain {
		return Text, nil
	}
	name, _, _ = strings.Cut(name, "?")
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown", ".mdx":
		return Markdown, nil
	case ".html", ".htm", ".xhtml":
		return HTML, nil
	case ".json":
		return JSON, nil
	case ".csv", ".tsv":
		return CSV, nil
	}
	if mediaType == "text/plain" {
		return Text, nil
	}
	begin := strings.ToLower(strings.TrimSpace(string(data[:min(len(data), 512)])))
	if strings.HasPrefix(begin, "<!doctype html") || strings.HasPrefix(begin, "<html") {
		return HTML, nil
	}
	return Text, nil
}

// textual reports whether an application/… type is text all the same.
func textual(mediaType string) bool {
	switch mediaType {
	case "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/sql", "application/javascript", "application/x-sh", "application/x-ndjson":
		return true
	}
	return strings.HasSuffix(mediaType, "+xml") || strings.HasSuffix(mediaType, "+yaml")
}
