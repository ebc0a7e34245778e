package rest

import (
	"encoding/json"

	"millrace/schemas/spec"
)

// FlatConfig reads a connector's config, a JSON object, as Kafka Connect has it:
// every value is text. Numbers, booleans and nested values become their JSON
// text; null is left out.
func FlatConfig(raw json.RawMessage) (map[string]string, error) {
	v, err := parse("", raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, Bad("config", "is %s, an object is wanted", kindOf(v))
	}
	return spec.Flatten(m), nil
}
