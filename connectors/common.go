package connectors

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"millrace/schemas/spec"
)

// Common are the keys that every connector has, named as in Kafka Connect.
type Common struct {
	Class      string          `json:"connector.class" doc:"The connector's class: <system>-source or <system>-sink, or the name of a class of another runtime that means it." spec:"required,group=Common,importance=high"`
	Name       string          `json:"name" doc:"The connector's name." spec:"group=Common,importance=high"`
	TasksMax   int             `json:"tasks.max" doc:"At most so many tasks share the work: the partitions of a source, the queues of a sink." default:"1" spec:"min=1,max=1024,group=Common"`
	Transforms json.RawMessage `json:"transforms" doc:"The steps that shape every event, a JSON list such as [{\"remove\":[\"data.card\"]}]." spec:"json,group=Common"`

	Tolerance    string        `json:"errors.tolerance" doc:"What an input or event that cannot be handled does: none stops the task, all puts it into the dead letters and goes on." default:"none" spec:"enum=none|all,group=Errors"`
	RetryTimeout time.Duration `json:"errors.retry.timeout" doc:"How long a failing event is tried again, in milliseconds; -1: as long as the retry strategy says." default:"-1" spec:"ms,min=-1,group=Errors"`
	RetryDelay   time.Duration `json:"errors.retry.delay.max.ms" doc:"The longest pause between two tries, in milliseconds." default:"60000" spec:"ms,min=0,group=Errors"`
	Log          bool          `json:"errors.log.enable" doc:"Whether every failed event is logged." default:"false" spec:"group=Errors,importance=low"`
	LogMessages  bool          `json:"errors.log.include.messages" doc:"Whether the log shows the failed event's place as well." default:"false" spec:"group=Errors,importance=low"`
	DeadLetter   string        `json:"errors.deadletterqueue.topic.name" doc:"The topic for dead letters; empty: the connector's own." spec:"group=Errors"`

	// What follows is taken so that configs of Kafka Connect work; events are
	// stored as CloudEvents and need no converters.
	KeyConverter          string `json:"key.converter" doc:"Accepted and ignored: keys are text." spec:"group=Ignored,importance=low"`
	KeyConverterSchemas   string `json:"key.converter.schemas.enable" doc:"Accepted and ignored." spec:"group=Ignored,importance=low"`
	ValueConverter        string `json:"value.converter" doc:"Accepted and ignored: events are CloudEvents." spec:"group=Ignored,importance=low"`
	ValueConverterSchemas string `json:"value.converter.schemas.enable" doc:"Accepted and ignored." spec:"group=Ignored,importance=low"`
	HeaderConverter       string `json:"header.converter" doc:"Accepted and ignored: headers are CloudEvents attributes." spec:"group=Ignored,importance=low"`
}

// SourceConfig are the keys that every source has.
type SourceConfig struct {
	Common
	Topic string `json:"topic" doc:"The topic that events go to; it is created if it is missing." spec:"group=Common,importance=high"`
}

// SinkConfig are the keys that every sink has. When, Where and Retry are left as
// they came: who runs rules reads them.
type SinkConfig struct {
	Common
	Topics      []string        `json:"topics" doc:"The topics to read; none where a rule targets the sink." spec:"group=Common,importance=high"`
	TopicsRegex string          `json:"topics.regex" doc:"Reads all topics whose whole name matches this regular expression, later ones too." spec:"group=Common"`
	Start       string          `json:"start" doc:"Where a new sink begins: earliest, latest or an RFC 3339 time." default:"earliest" spec:"group=Common"`
	When        json.RawMessage `json:"when" doc:"An event pattern, as JSON: only events that match it are written." spec:"json,group=Filter"`
	Where       json.RawMessage `json:"where" doc:"An expression such as data.amount > 100, or {\"cesql\": …} or {\"sql92\": …}: only events for which it is true are written." spec:"group=Filter"`
	OnError     string          `json:"onError" doc:"What an event that finally fails does to its key: block waits, park-key sends it and what follows of its key to the dead letters, skip sends it alone. Default: skip where errors.tolerance is all, else block." spec:"enum=block|park-key|skip,group=Errors"`
	Retry       json.RawMessage `json:"retry" doc:"The retry strategy, as JSON such as {\"strategy\":\"backoff\"}." spec:"json,group=Errors"`

	BatchRecords  int           `json:"batch.records" doc:"At most so many events in one write." default:"1000" spec:"min=1,max=100000,group=Batches"`
	BatchBytes    spec.Bytes    `json:"batch.bytes" doc:"At most so many bytes in one write; one event may be larger." default:"4MiB" spec:"min=1KiB,max=64MiB,group=Batches"`
	FlushInterval time.Duration `json:"flush.interval" doc:"How long written events may wait until they are flushed and their offsets saved." default:"1s" spec:"min=1ms,max=1h,group=Batches"`
}

// Check says what tags cannot.
func (c *SinkConfig) Check() error {
	var problems []spec.Problem
	add := func(path, msg string) { problems = append(problems, spec.Problem{Path: path, Msg: msg}) }
	if len(c.Topics) > 0 && c.TopicsRegex != "" {
		add("topics.regex", "cannot be set together with topics: leave one out")
	}
	if _, err := regexp.Compile(c.TopicsRegex); err != nil {
		add("topics.regex", "is not a regular expression: "+err.Error())
	}
	if _, _, err := ParseStart(c.Start); err != nil && !spec.IsReference(c.Start) {
		add("start", err.Error())
	}
	if len(problems) > 0 {
		return &spec.Error{Problems: problems}
	}
	return nil
}

// Policy is OnError with its default filled in.
func (c *SinkConfig) Policy() string {
	switch {
	case c.OnError != "":
		return c.OnError
	case c.Tolerance == "all":
		return "skip"
	default:
		return "block"
	}
}

// ParseStart reads "earliest", "latest" or an RFC 3339 time: for the first two at
// is zero, and latest tells them apart.
func ParseStart(s string) (at time.Time, latest bool, err error) {
	switch s {
	case "earliest", "":
		return time.Time{}, false, nil
	case "latest":
		return time.Time{}, true, nil
	}
	at, err = time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("must be earliest, latest or an RFC 3339 time such as 2026-01-31T09:30:00Z, not %q", s)
	}
	return at, false, nil
}
