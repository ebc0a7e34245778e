package file

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"millrace/schemas/spec"
)

type sinkConfig struct {
	Path           string        `json:"path" doc:"The file that events are appended to; it may hold ${topic} and ${queue}. Missing directories are made." spec:"required,importance=high"`
	Format         string        `json:"format" doc:"How events are written." default:"ndjson" spec:"enum=ndjson|csv,importance=high"`
	Value          string        `json:"value" doc:"What a line of ndjson is: the whole event as a structured CloudEvent, or its data alone. CSV always takes the data." default:"event" spec:"enum=event|data"`
	RotateBytes    spec.Bytes    `json:"rotate.bytes" doc:"Renames the file before it grows beyond this size and begins a new one; 0 never does." default:"0" spec:"min=0,group=Rotation"`
	RotateInterval time.Duration `json:"rotate.interval" doc:"Renames the file when it was begun so long ago and more is to be written; 0 never does." default:"0s" spec:"min=0s,group=Rotation"`
	Columns        []string      `json:"csv.columns" doc:"The columns; default: the fields of the first event." spec:"group=CSV"`
	Delimiter      string        `json:"csv.delimiter" doc:"What separates fields: one character or tab. Default a comma, and a tab for .tsv." spec:"group=CSV"`
}

// placeholder is what stands for a part of the path.
var placeholder = regexp.MustCompile(`\$\{[^}]*\}?`)

// Check says what tags cannot.
func (c *sinkConfig) Check() error {
	for _, p := range placeholder.FindAllString(c.Path, -1) {
		if p != "${topic}" && p != "${queue}" && !spec.IsReference(p) {
			return pathProblem("holds " + p + ": only ${topic} and ${queue} may stand in it")
		}
	}
	if name := filepath.Base(c.Path); strings.HasSuffix(c.Path, "/") || name == "." || name == ".." {
		return pathProblem("names a directory: give the file's name too, such as /data/${topic}.ndjson")
	}
	return checkDelimiter(c.Delimiter)
}

func pathProblem(msg string) error {
	return &spec.Error{Problems: []spec.Problem{{Path: "path", Msg: msg}}}
}

// pathFor is the file that a queue's events go to.
func (c *sinkConfig) pathFor(topic string, queue int) string {
	name := strings.ReplaceAll(topic, "/", "_")
	if strings.Trim(name, ".") == "" {
		name = "_"
	}
	return strings.NewReplacer("${topic}", name, "${queue}", strconv.Itoa(queue)).Replace(c.Path)
}

// sidecars is a glob for the small files beside all files the path may mean.
func (c *sinkConfig) sidecars() string {
	escaped := regexp.MustCompile(`[*?[\\]`).ReplaceAllString(c.Path, `\$0`)
	return sidecarPath(strings.NewReplacer("${topic}", "*", "${queue}", "*").Replace(escaped))
}

func sidecarPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".millrace")
}
