package connectors_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/connectors"
	"millrace/schemas/spec"
)

type ownSource struct {
	Path  string `json:"path" doc:"The path." spec:"required"`
	Topic string `json:"topic" doc:"The topic." spec:"required"`
}

type ownSink struct {
	URL string `json:"url" doc:"Where to." spec:"required"`
}

func (c *ownSink) Check() error {
	if c.URL == "bad" {
		return &spec.Error{Problems: []spec.Problem{{Path: "url", Msg: "is bad"}}}
	}
	return nil
}

func plugins() []connectors.Plugin {
	source := connectors.SourceOf(func(context.Context, ownSource, connectors.Env) (connectors.Source, error) { return nil, nil })
	source.Aliases = []string{"org.example.ThingSourceConnector"}
	return []connectors.Plugin{{
		Name: "thing", Source: source,
		Sink: connectors.SinkOf(func(context.Context, ownSink, connectors.Env) (connectors.Sink, error) { return nil, nil }),
	}}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for _, class := range []string{"thing-source", "org.example.ThingSourceConnector", "ThingSourceConnector", "ThingSource"} {
		p, source, sink, err := connectors.Lookup(plugins(), class)
		if err != nil || p.Name != "thing" || source == nil || sink != nil {
			t.Error(class, err)
		}
	}
	if _, source, sink, err := connectors.Lookup(plugins(), "thing-sink"); err != nil || source != nil || sink == nil {
		t.Error(err)
	}
	for class, want := range map[string]string{
		"":           "connector.class: is required: the connector's class, such as file-source",
		"thing-snik": `connector.class: there is no connector class "thing-snik", did you mean "thing-sink"?`,
		"zzzzzzzzzz": `connector.class: there is no connector class "zzzzzzzzzz"; known are thing-source, thing-sink`,
	} {
		if _, _, _, err := connectors.Lookup(plugins(), class); err == nil || err.Error() != want {
			t.Errorf("%q: %v", class, err)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	flat := map[string]string{
		"connector.class": "thing-sink", "name": "n", "topics": "a,b", "url": "u", "where": `data.x > 1`, "when": `{"type":["t"]}`,
		"errors.tolerance": "all", "flush.interval": "2s", "value.converter": "org.apache.kafka.connect.json.JsonConverter", "tasks.max": "2",
	}
	p, err := connectors.Parse(plugins(), spec.FromStrings(flat))
	if err != nil {
		t.Fatal(err)
	}
	c := p.SinkConfig
	if diff := cmp.Diff(map[string]any{"url": "u"}, p.Own); diff != "" {
		t.Error(diff)
	}
	if c.Policy() != "skip" || c.FlushInterval != 2*time.Second || string(c.Where) != `"data.x \u003e 1"` || string(c.When) != `{"type":["t"]}` ||
		c.RetryTimeout != -time.Millisecond || c.RetryDelay != time.Minute || c.BatchRecords != 1000 || p.Common().TasksMax != 2 {
		t.Errorf("%+v", c)
	}
	source, err := connectors.Parse(plugins(), map[string]any{"connector.class": "thing-source", "path": "p", "topic": "t"})
	if err != nil || source.SourceConfig.Topic != "t" || source.Own["topic"] != "t" || source.Class != "thing-source" {
		t.Error(err, source)
	}
}

func TestParseProblems(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		key, value, want string
	}{
		{"topic", "x", `topic: unknown key, did you mean "topics"?`},
		{"ulr", "x", `ulr: unknown key, did you mean "url"?`},
		{"topics.regex", "(", "topics.regex: cannot be set together with topics: leave one out; topics.regex: is not a regular expression: error parsing regexp: missing closing ): `(`"},
		{"start", "now", `start: must be earliest, latest or an RFC 3339 time such as 2026-01-31T09:30:00Z, not "now"`},
		{"url", "bad", "url: is bad"},
		{"transforms", "a,b", "transforms: is not valid JSON: invalid character 'a' looking for beginning of value"},
		{"tasks.max", "0", `tasks.max: must be at least 1, not "0"`},
	} {
		config := map[string]any{"connector.class": "thing-sink", "topics": "a", "url": "u", tc.key: tc.value}
		if _, err := connectors.Parse(plugins(), config); err == nil || err.Error() != tc.want {
			t.Errorf("%s=%s: %v\nwant %s", tc.key, tc.value, err, tc.want)
		}
	}
}

func TestParseAliasIgnoresUnknownKeys(t *testing.T) {
	t.Parallel()
	p, err := connectors.Parse(plugins(), map[string]any{"connector.class": "ThingSource", "path": "p", "topic": "t", "poll.ms": "5", "foo": 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"foo", "poll.ms"}, p.Ignored); diff != "" {
		t.Error(diff)
	}
}
