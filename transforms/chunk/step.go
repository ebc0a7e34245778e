package chunk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"millrace/bus/event"
	"millrace/schemas/spec"
)

// Auto is the step's strategy where none is named: markdown for Markdown and
// HTML documents, recursive with the separators of Sentences for others.
const Auto = "auto"

// Config configures the step.
type Config struct {
	Strategy   string   `json:"strategy" doc:"How to cut. auto: markdown for Markdown and HTML documents, at paragraphs, lines and sentences for others; recursive: at the coarsest of separators that makes the pieces small enough, as LangChain's RecursiveCharacterTextSplitter does; markdown: at headings, keeping code fences and tables whole; fixed: windows of one size." default:"auto" spec:"enum=auto|recursive|markdown|fixed"`
	Size       int      `json:"size" doc:"The most Unicode code points in a chunk." default:"1000" spec:"min=1,max=1000000"`
	Overlap    *int     `json:"overlap" doc:"The most code points that a chunk repeats of the one before; 100, or a tenth of size where that is less, if not set." spec:"min=0"`
	Separators []string `json:"separators" doc:"What to cut at, from coarse to fine; an empty one is every code point. For recursive and markdown."`
	Language   string   `json:"language" doc:"For recursive: cut where a programming language does, such as go, python or java."`
	MaxChunks  int      `json:"maxChunks" doc:"A document of more chunks fails." default:"10000" spec:"min=1,max=1000000"`
}

// Summary and Docs describe the step, Example shows it.
const (
	Summary = "Cuts a document into chunks, one event each."
	Docs    = `Takes what [load](#load) makes: JSON data with ` + "`text`" + `, and where they are there ` + "`document`, `title`, `format`" + ` and ` + "`metadata`" + `.
Text that was not loaded is taken as it is, with the event's key, or else subject or id, as its document.

Each chunk is an event: its id is the old one, a slash and its number; its key is the document, so that the chunks of a document keep their
order. Its data:

| Member | What |
| --- | --- |
| ` + "`document`, `title`, `format`, `metadata`" + ` | of the document |
| ` + "`version`" + ` | the same in all chunks of one content of the document, cut one way |
| ` + "`seq`, `total`" + ` | the chunk's number, from 0, and how many there are |
| ` + "`text`" + ` | the chunk, without white space around it |
| ` + "`start`, `end`" + ` | its place in the document's text, in bytes of UTF-8 |
| ` + "`titlePath`" + ` | the headings above it, outermost first |
| ` + "`hash`" + ` | SHA-256 of text |

A store knows by ` + "`version`, `seq`" + ` and ` + "`total`" + ` when it has all chunks of a document, and so when the old ones can go. A document without text makes
one event with a total of 0, which empties it there. Tombstones pass: the document is deleted.`
	Example = `chunk: {strategy: markdown, size: 1200, overlap: 150}`
)

// Step cuts loaded documents. It may be used by many goroutines at once.
type Step struct {
	max      int
	way      string // the config, for versions
	auto     bool
	splitter *Splitter // of all documents, or with auto of those without headings
	markdown *Splitter // with auto
}

// NewStep checks a config. The error is a *spec.Error.
func NewStep(c Config) (*Step, error) {
	if c.Size == 0 {
		c.Size = 1000
	}
	o := Options{Strategy: c.Strategy, Size: c.Size, Overlap: min(100, c.Size/10), Separators: c.Separators, Language: c.Language}
	if c.Overlap != nil {
		o.Overlap = *c.Overlap
	}
	if len(c.Separators) > 0 && (c.Strategy == Fixed || c.Language != "") {
		return nil, wrong("separators", "go with recursive or markdown, and without language: leave one out")
	}
	if c.Language != "" && c.Strategy != Recursive {
		return nil, wrong("language", "goes with the strategy recursive")
	}
	s := &Step{max: c.MaxChunks, auto: c.Strategy == "" || c.Strategy == Auto, way: fmt.Sprintf("%+v", o)}
	if s.max == 0 {
		s.max = 10000
	}
	if s.auto || o.Strategy == Markdown {
		o.Keep = KeepEnd
		if len(o.Separators) == 0 {
			o.Separators = Sentences()
		}
	}
	var err error
	if s.auto {
		o.Strategy = Markdown
		if s.markdown, err = New(o); err != nil {
			return nil, asSpecError(err)
		}
		o.Strategy = Recursive
	}
	if s.splitter, err = New(o); err != nil {
		return nil, asSpecError(err)
	}
	return s, nil
}

func wrong(key, msg string) error {
	return &spec.Error{Problems: []spec.Problem{{Path: key, Msg: msg}}}
}

// asSpecError parts an error of New into the option, which the key is named for,
// and what is wrong with it.
func asSpecError(err error) error {
	key, msg, _ := strings.Cut(err.Error(), ": ")
	return wrong(key, msg)
}

// document is what load makes of it.
type document struct {
	Document *string         `json:"document"`
	Title    string          `json:"title"`
	Text     *string         `json:"text"`
	Format   string          `json:"format"`
	Metadata json.RawMessage `json:"metadata"`
}

// data is a chunk's event data.
type data struct {
	Document  string          `json:"document"`
	Title     string          `json:"title,omitempty"`
	Format    string          `json:"format,omitempty"`
	Version   string          `json:"version"`
	Seq       int             `json:"seq"`
	Total     int             `json:"total"`
	Text      string          `json:"text"`
	Start     int             `json:"start"`
	End       int             `json:"end"`
	TitlePath []string        `json:"titlePath,omitempty"`
	Hash      string          `json:"hash,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// Apply appends the chunks of e to out. An error says that e cannot be cut.
func (s *Step) Apply(e event.Event, out []event.Event) ([]event.Event, error) {
	if e.Tombstone() {
		e.Key = NameOf(&e)
		return append(out, e), nil
	}
	d, err := read(&e)
	if err != nil {
		return out, err
	}
	chunks := s.split(&d)
	if len(chunks) > s.max {
		return out, fmt.Errorf("the document makes %d chunks, more than maxChunks, %d", len(chunks), s.max)
	}
	id := e.ID
	e.Key, e.ContentType, e.Schema = *d.Document, "application/json", ""
	c := data{Document: *d.Document, Title: d.Title, Format: d.Format, Metadata: d.Metadata, Version: s.version(&d), Total: len(chunks)}
	for i := range max(1, len(chunks)) {
		c.Seq = i
		if i < len(chunks) {
			ch := &chunks[i]
			sum := sha256.Sum256([]byte(ch.Text))
			c.Text, c.Start, c.End, c.TitlePath, c.Hash = ch.Text, ch.Start, ch.End, ch.TitlePath, hex.EncodeToString(sum[:])
		}
		e.ID = id + "/" + strconv.Itoa(i)
		if e.Data, err = marshal(&c); err != nil {
			return out, err
		}
		out = append(out, e)
	}
	return out, nil
}

// version tells contents apart, and ways of cutting them.
func (s *Step) version(d *document) string {
	h := sha256.New()
	for _, part := range []string{s.way, d.Title, string(d.Metadata), *d.Text} {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10)) // a hash takes all
		h.Write([]byte(":" + part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func (s *Step) split(d *document) []Chunk {
	if s.auto && (d.Format == "markdown" || d.Format == "html") {
		return s.markdown.Split(*d.Text)
	}
	return s.splitter.Split(*d.Text)
}

// read takes an event for a document.
func read(e *event.Event) (d document, err error) {
	if !e.JSON() {
		if !strings.HasPrefix(strings.ToLower(e.ContentType), "text/") || !utf8.Valid(e.Data) {
			return d, fmt.Errorf("data is neither JSON nor text in UTF-8 (%s): put a load step before", e.ContentType)
		}
		text := string(e.Data)
		d.Text = &text
		if strings.HasPrefix(strings.ToLower(e.ContentType), "text/markdown") {
			d.Format = "markdown"
		}
	} else if err := json.Unmarshal(e.Data, &d); err != nil {
		return d, fmt.Errorf("data is no document: %w", err)
	}
	if d.Text == nil {
		return d, errors.New("data.text is not there: put a load step before, or set data.text")
	}
	if d.Document == nil || *d.Document == "" {
		name := NameOf(e)
		d.Document = &name
	}
	if bytes.Equal(d.Metadata, []byte("null")) {
		d.Metadata = nil
	}
	return d, nil
}

// NameOf is the document that an event stands for: its key, else its subject,
// else its id.
func NameOf(e *event.Event) string {
	switch {
	case e.Key != "":
		return e.Key
	case e.Subject != "":
		return e.Subject
	}
	return e.ID
}

// marshal is json.Marshal that leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
