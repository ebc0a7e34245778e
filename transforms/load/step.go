package load

import (
	"bytes"
	"encoding/json"
	"strings"

	"millrace/bus/event"
	"millrace/transforms/chunk"
)

// Config configures the step.
type Config struct {
	Format    string `json:"format" doc:"The documents' format; auto tells it by content type, the extension of the name, and content." default:"auto" spec:"enum=auto|text|markdown|html|json|csv"`
	MaxBytes  int    `json:"maxBytes" doc:"A document, or the text made of it, of more bytes fails." default:"16777216" spec:"min=1,max=268435456"`
	TextField string `json:"textField" doc:"Of JSON: the dotted path of the one value that is the text; without it all values are."`
	Title     string `json:"titleField" doc:"Of JSON: the dotted path of the title; without it title or name."`
}

// Summary and Docs describe the step, Example shows it.
const (
	Summary = "Reads a document (text, Markdown, HTML, JSON, CSV) for its text, title and metadata."
	Docs    = `The event's data becomes JSON:

| Member | What |
| --- | --- |
| ` + "`document`" + ` | the document's identity: the event's key, else its subject, else its id. It becomes the event's key |
| ` + "`title`" + ` | a Markdown document's front matter or first heading, a page's title, a JSON document's title or name; else the name without extension |
| ` + "`text`" + ` | the text in UTF-8. Markdown stays as it is, without front matter; of a page the main content becomes Markdown, without navigation, scripts and forms; JSON becomes lines ` + "`path: value`" + `, CSV a paragraph of lines ` + "`header: value`" + ` for each row |
| ` + "`format`, `mediaType`" + ` | such as ` + "`markdown`, `text/markdown`" + ` |
| ` + "`metadata`" + ` | front matter; of a page language and description |

The name is the extension attribute ` + "`path`" + ` or ` + "`filename`" + `, else subject, key or source. Encodings are told by byte order mark, charset, and content:
UTF-8 and 16, GB 18030, Windows-1252, and whatever a charset or a page names. What is not text, malformed or too large fails for good. Tombstones pass:
the document is deleted.`
	Example = `load: {}`
)

// Step loads documents. It may be used by many goroutines at once.
type Step struct{ o Options }

// NewStep makes a step.
func NewStep(c Config) *Step {
	return &Step{Options{Format: c.Format, MaxBytes: c.MaxBytes, TextField: strings.TrimPrefix(c.TextField, "data."), Title: strings.TrimPrefix(c.Title, "data.")}}
}

// Apply appends e with the loaded document for its data to out. An error wraps one
// of the package's sentinels.
func (s *Step) Apply(e event.Event, out []event.Event) ([]event.Event, error) {
	name := nameOf(&e)
	e.Key = chunk.NameOf(&e)
	if e.Tombstone() {
		return append(out, e), nil
	}
	mediaType := e.ContentType
	if mediaType == "" {
		mediaType = "application/json" // as CloudEvents says
	}
	d, err := Load(Input{Name: name, MediaType: mediaType, Data: e.Data}, s.o)
	if err != nil {
		return out, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err = enc.Encode(struct {
		Document  string         `json:"document"`
		Title     string         `json:"title,omitempty"`
		Text      string         `json:"text"`
		Format    string         `json:"format"`
		MediaType string         `json:"mediaType"`
		Metadata  map[string]any `json:"metadata,omitempty"`
	}{e.Key, d.Title, d.Text, d.Format, d.MediaType, d.Metadata})
	if err != nil {
		return out, err
	}
	e.Data, e.ContentType, e.Schema = bytes.TrimSuffix(b.Bytes(), []byte("\n")), "application/json", ""
	return append(out, e), nil
}

// nameOf is the attribute that looks most like a file's name.
func nameOf(e *event.Event) string {
	for _, name := range []string{"path", "filename", "subject", "partitionkey", "source"} {
		if v, ok := e.Get(name); ok && v != "" {
			return v
		}
	}
	return ""
}
