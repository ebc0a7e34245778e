package connectorstest

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/schemas/spec"
)

// Config checks how a component is configured: config, which must be valid, is
// also valid as text, as Kafka Connect sends it; every required key is missed by
// name; unknown keys are refused with the nearest one; secrets are never shown.
func Config(t *testing.T, s *spec.Spec, check func(map[string]any) error, config map[string]any) {
	t.Helper()
	flat := spec.FromStrings(spec.Flatten(config))
	for name, c := range map[string]map[string]any{"as JSON": config, "as text": flat} {
		if err := check(c); err != nil {
			t.Errorf("the config %s is refused: %v", name, err)
		}
	}
	for _, f := range s.Fields() {
		if !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s: the doc is no sentence: %q", f.Name, f.Doc)
		}
		without := maps.Clone(config)
		delete(without, f.Name)
		if err := check(without); f.Required && (err == nil || !strings.Contains(err.Error(), f.Name+": is required")) {
			t.Errorf("%s is required, but without it: %v", f.Name, err)
		}
		wrong := maps.Clone(config)
		misspelt := f.Name[:len(f.Name)-1] + "zq"
		if len(f.Name) > 5 && f.Kind != spec.Map {
			wrong[misspelt] = "x"
			if err := check(wrong); err == nil || !strings.Contains(err.Error(), misspelt+`: unknown key, did you mean "`) {
				t.Errorf("the unknown key %s: %v", misspelt, err)
			}
		}
		if f.Secret {
			secret(t, s, &f, config)
		}
	}
	wrong := maps.Clone(config)
	wrong["qqqqqqqqqqqqqqqqqqqq"] = 1
	if err := check(wrong); err == nil || !strings.Contains(err.Error(), "qqqqqqqqqqqqqqqqqqqq: unknown key") {
		t.Errorf("an unknown key: %v", err)
	}
}

// secret checks that a secret is hidden wherever a config is shown.
func secret(t *testing.T, s *spec.Spec, f *spec.Field, config map[string]any) {
	t.Helper()
	const hunter = "hunter2"
	c := maps.Clone(config)
	c[f.Name] = hunter
	if f.Kind == spec.Map {
		c[f.Name] = map[string]any{"x": hunter}
	}
	shown, err := json.Marshal([]any{spec.Redact(c, s), s.Validate(c), s.Keys(), s.JSONSchema()})
	if err != nil || strings.Contains(string(shown), hunter) {
		t.Errorf("%s: the secret is shown: %v %s", f.Name, err, shown)
	}
}

// plugin checks what is said about a connector.
func plugin(t *testing.T, p *connectors.Plugin, guarantee string) {
	t.Helper()
	if p.Name == "" || p.Docs == "" || !strings.HasSuffix(p.Summary, ".") || !strings.HasSuffix(guarantee, ".") {
		t.Errorf("%q: name, docs, summary and guarantee must be there, the last two as sentences: %q, %q", p.Name, p.Summary, guarantee)
	}
}
