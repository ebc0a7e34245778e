package elasticsearch

import (
	"net/url"
	"strings"
	"time"

	"millrace/schemas/spec"
)

// What a tombstone does.
const (
	nullDelete = "delete"
	nullIgnore = "ignore"
	nullFail   = "fail"
)

type config struct {
	URLs     []string    `json:"connection.url" doc:"The servers, as http or https URLs; where one is out of reach the next is taken." spec:"required,importance=high"`
	User     string      `json:"connection.username" doc:"The user of basic authentication." spec:"group=Access,importance=high"`
	Password spec.Secret `json:"connection.password" doc:"The password of basic authentication." spec:"group=Access,importance=high"`
	APIKey   spec.Secret `json:"api.key" doc:"An API key, in the encoded form that Elasticsearch gives." spec:"group=Access"`

	Index     string `json:"index" doc:"The index or alias; it may hold ${topic}. Default: the topic's name, in lower case and without what an index's name may not hold." spec:"importance=high"`
	KeyIgnore bool   `json:"key.ignore" doc:"Whether a document's id is made from the event's place instead of its key, so that no event overwrites another." default:"false" spec:"importance=high"`
	Nulls     string `json:"behavior.on.null.values" doc:"What a tombstone does: it deletes the document, is ignored, or fails." default:"delete" spec:"enum=delete|ignore|fail,importance=high"`
	Value     string `json:"document.value" doc:"What a document is: the event's data, which must be a JSON object, or the whole event as a structured CloudEvent." default:"data" spec:"enum=data|event,importance=high"`
	Versions  bool   `json:"external.version" doc:"Whether documents with an id from the key have a version from the event's place in the log, so that what is older than the document is dropped." default:"true"`

	BatchSize int           `json:"batch.size" doc:"At most so many events in one request." default:"2000" spec:"min=1,max=100000,group=Requests"`
	BulkBytes spec.Bytes    `json:"bulk.size.bytes" doc:"At most so many bytes in one request; one event may be larger." default:"5MiB" spec:"min=1KiB,max=64MiB,group=Requests"`
	Timeout   time.Duration `json:"read.timeout.ms" doc:"How long one request may take, its answer included, in milliseconds." default:"60000" spec:"ms,min=1,group=Requests"`
}

// Check says what tags cannot.
func (c *config) Check() error {
	var problems []spec.Problem
	add := func(path, msg string) { problems = append(problems, spec.Problem{Path: path, Msg: msg}) }
	for _, text := range c.URLs {
		if strings.Contains(text, "${") {
			continue
		}
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "":
			add("connection.url", "must be http or https URLs such as https://search.example.com:9200")
		case u.User != nil:
			add("connection.url", "must not hold a user or password: use connection.username and connection.password")
		}
	}
	if c.Password != "" && c.User == "" {
		add("connection.username", "is required with connection.password")
	}
	if c.APIKey != "" && c.User != "" {
		add("api.key", "cannot be set together with connection.username: leave one out")
	}
	if name := strings.ReplaceAll(c.Index, "${topic}", "t"); name != "" && !strings.Contains(name, "${") && name != legalIndex(name) {
		add("index", "is not a legal name, such as "+legalIndex(name))
	}
	if problems != nil {
		return &spec.Error{Problems: problems}
	}
	return nil
}

// maxIndex is the length of an index's name that servers take, in bytes.
const maxIndex = 255

// legalIndex is the index name nearest to a name.
func legalIndex(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`\/*?"<>| ,#:`, r) {
			return '-'
		}
		return r
	}, strings.ToLower(name))
	name = strings.TrimLeft(name, "-_+")
	if len(name) > maxIndex {
		name = strings.ToValidUTF8(name[:maxIndex], "")
	}
	if name == "" || name == "." || name == ".." {
		return "events"
	}
	return name
}

// indexOf is the index of a topic's events.
func (c *config) indexOf(topic string) string {
	if c.Index == "" {
		return legalIndex(topic)
	}
	return strings.ReplaceAll(c.Index, "${topic}", legalIndex(topic))
}
