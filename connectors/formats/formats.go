// Package formats knows what files and objects hold: which format and content
// type a name stands for, and how NDJSON, CSV and text fall into records and
// records into events. It reads nothing itself: bytes come from the connectors
// that share it.
package formats

import (
	"net/http"
	"path"
	"strings"
)

// The formats.
const (
	NDJSON   = "ndjson"
	CSV      = "csv"
	Text     = "text"
	Document = "document" // the whole file is one event
)

// ByName is the format that a file's name stands for: .ndjson and .jsonl, .csv
// and .tsv, .txt and .log; all others are documents.
func ByName(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".ndjson", ".jsonl":
		return NDJSON
	case ".csv", ".tsv":
		return CSV
	case ".txt", ".log":
		return Text
	default:
		return Document
	}
}

// ContentType tells a document's media type by its name's extension, else by its
// content. Text that claims to be JSON and is not is plain text.
func ContentType(name string, content []byte) string {
	ct := map[string]string{
		".md": "text/markdown", ".markdown": "text/markdown", ".html": "text/html", ".htm": "text/html", ".txt": "text/plain",
		".csv": "text/csv", ".tsv": "text/tab-separated-values", ".json": "application/json", ".xml": "application/xml",
		".yaml": "application/yaml", ".yml": "application/yaml", ".pdf": "application/pdf", ".rst": "text/x-rst", ".adoc": "text/asciidoc",
		".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
		".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
		".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
		".png":  "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".svg": "image/svg+xml",
	}[strings.ToLower(path.Ext(name))]
	if ct == "application/json" && !ValidJSON(content) {
		ct = ""
	}
	if ct == "" {
		ct = http.DetectContentType(content)
	}
	return ct
}

// Delimiter is what separates the fields of one CSV file: what is configured (one
// character, or tab), else a tab for .tsv and a comma.
func Delimiter(configured, name string) byte {
	switch {
	case configured == "tab", configured == "" && strings.EqualFold(path.Ext(name), ".tsv"):
		return '\t'
	case configured == "":
		return ','
	default:
		return configured[0]
	}
}

// IsDelimiter reports whether a config may name d as the delimiter: empty, tab, or
// one ASCII character other than a quote or line end.
func IsDelimiter(d string) bool {
	return d == "" || d == "tab" || len(d) == 1 && d[0] < 0x80 && !strings.Contains("\"\r\n", d)
}
