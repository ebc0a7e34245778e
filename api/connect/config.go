package connect

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"

	"millrace/api/rest"
	"millrace/connectors"
	"millrace/schemas/spec"
)

// shown is a config as it was sent, references unresolved, but secrets that were
// written out: those are never shown.
func (s *Service) shown(config map[string]string) map[string]string {
	var full *spec.Spec
	switch _, source, sink, err := connectors.Lookup(s.Desired.Plugins(), config["connector.class"]); {
	case err != nil: // names alone say what is a secret
	case source != nil:
		full = source.Full()
	default:
		full = sink.Full()
	}
	out := maps.Clone(config)
	for key, v := range spec.Redact(spec.FromStrings(config), full) {
		if text, ok := v.(string); ok && strings.Contains(text, spec.Hidden) {
			out[key] = text
		}
	}
	return out
}

// keepHidden puts back what shown had hidden in a config that was read, changed
// and is sent again.
func keepHidden(config, old map[string]string) {
	for key, v := range config {
		if was, ok := old[key]; ok && v == spec.Hidden {
			config[key] = was
		}
	}
}

// getConfig shows what was sent.
func (s *Service) getConfig(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	c, err := s.Desired.Connector(ctx, r.Params["connector"])
	return rest.Answer{Body: s.shown(c.Def.Config)}, err
}

func (s *Service) putConfig(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	raw, err := r.Object()
	if err != nil {
		return rest.Answer{}, err
	}
	config, err := rest.FlatConfig(raw)
	if err != nil {
		return rest.Answer{}, err
	}
	return s.store(ctx, r.Params["connector"], config, "", false)
}

// patchConfig lays the body over the config; null takes a key away.
func (s *Service) patchConfig(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	raw, err := r.Object()
	if err != nil {
		return rest.Answer{}, err
	}
	var patch map[string]json.RawMessage
	if err := rest.Strict("", raw, &patch); err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["connector"]
	c, err := s.Desired.Connector(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	set, err := rest.FlatConfig(raw)
	if err != nil {
		return rest.Answer{}, err
	}
	config := maps.Clone(c.Def.Config)
	maps.Copy(config, set)
	for key, v := range patch {
		if string(v) == "null" {
			delete(config, key)
		}
	}
	a, err := s.store(ctx, name, config, "", false)
	a.Status = http.StatusOK
	return a, err
}
