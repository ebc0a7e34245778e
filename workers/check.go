package workers

import (
	"encoding/json"

	"millrace/connectors"
	"millrace/rules"
)

// CheckConnector checks what a connector's config says to the worker: its
// transforms, and a sink's when, where and retry. The error names the key.
func CheckConnector(parsed connectors.Parsed) error {
	if parsed.Source != nil {
		_, err := sourceOf("check", parsed)
		return err
	}
	_, err := sinkOf("check", parsed)
	return err
}

// CheckHTTP checks a rule's HTTP target as it will be opened, with the spec of
// the connection that it names, or nil.
func CheckHTTP(plugins []connectors.Plugin, target *rules.HTTP, connection json.RawMessage) error {
	_, err := httpSink(plugins, target, connection)
	return err
}
