package file

import (
	"path/filepath"
	"time"

	"millrace/connectors/formats"
	"millrace/schemas/spec"
)

type sourceConfig struct {
	Path        string        `json:"path" doc:"A file, a directory or a glob with *, ? and **." spec:"required,importance=high"`
	Topic       string        `json:"topic" doc:"The topic that events go to." spec:"required,importance=high"`
	Format      string        `json:"format" doc:"What the files hold. Default by extension: .ndjson and .jsonl are ndjson, .csv and .tsv are csv, .txt and .log are text, all others are documents." spec:"enum=ndjson|csv|text|document,importance=high"`
	Follow      bool          `json:"follow" doc:"Whether to wait for more at the end; false: the source ends there." default:"true"`
	Poll        time.Duration `json:"poll.interval" doc:"How often to look for new files and bytes while there are none." default:"250ms" spec:"min=10ms,max=1h"`
	CloudEvents string        `json:"cloudevents" doc:"Whether NDJSON lines that are structured CloudEvents are taken as such." default:"auto" spec:"enum=auto|never"`
	Type        string        `json:"type" doc:"The events' type; default millrace.file.line, and millrace.file.document for documents." spec:"group=Events"`
	Subject     string        `json:"subject" doc:"The events' subject; a document's is its path." spec:"group=Events"`
	Key         string        `json:"key" doc:"Path of the field in the data that is the event's key, such as order.id or items[0].sku; a document's key is its path." spec:"group=Events"`
	Delimiter   string        `json:"csv.delimiter" doc:"What separates fields: one character or tab. Default a comma, and a tab for .tsv." spec:"group=CSV"`
	Header      bool          `json:"csv.header" doc:"Whether the first record names the columns; false: they are column_1, column_2 and so on." default:"true" spec:"group=CSV"`
	MaxLine     spec.Bytes    `json:"max.line.bytes" doc:"The longest line or CSV record; a longer one is a failure and skipped." default:"16MiB" spec:"min=64,max=64MiB,group=Limits"`
	MaxDocument spec.Bytes    `json:"max.document.bytes" doc:"The largest document; a larger one is a failure." default:"64MiB" spec:"min=1,max=64MiB,group=Limits"`
}

// Check says what tags cannot.
func (c *sourceConfig) Check() error {
	if spec.IsReference(c.Path) {
		return nil
	}
	if err := checkPattern(c.Path); err != nil {
		return &spec.Error{Problems: []spec.Problem{{Path: "path", Msg: err.Error()}}}
	}
	return checkDelimiter(c.Delimiter)
}

func checkDelimiter(d string) error {
	if !formats.IsDelimiter(d) && !spec.IsReference(d) {
		return &spec.Error{Problems: []spec.Problem{{Path: "csv.delimiter", Msg: "must be one ASCII character other than a quote or line end, or tab"}}}
	}
	return nil
}

// formatOf is the format of one file.
func (c *sourceConfig) formatOf(path string) string {
	if c.Format != "" {
		return c.Format
	}
	return formats.ByName(filepath.ToSlash(path))
}
