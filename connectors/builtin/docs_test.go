package builtin_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"millrace/connectors"
	"millrace/connectors/builtin"
	"millrace/schemas/spec"
)

// TestDocs compares docs/connectors with what specs and plugins say.
// MILLRACE_UPDATE=1 writes the pages anew.
func TestDocs(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "docs", "connectors")
	pages := map[string]string{"README.md": index(), "common.md": common()}
	for _, p := range builtin.Plugins() {
		pages[p.Name+".md"] = page(&p)
	}
	if os.Getenv("MILLRACE_UPDATE") == "1" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range pages {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, known := pages[e.Name()]; !known {
			t.Errorf("docs/connectors/%s belongs to no connector: remove it", e.Name())
		}
	}
	for name, text := range pages {
		have, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(have) != text {
			t.Errorf("docs/connectors/%s is stale: run MILLRACE_UPDATE=1 go test ./connectors/builtin", name)
		}
	}
}

// TestList holds that names are unique and sorted, and classes are found.
func TestList(t *testing.T) {
	t.Parallel()
	plugins := builtin.Plugins()
	if !slices.IsSortedFunc(plugins, func(a, b connectors.Plugin) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the list is not sorted by name")
	}
	seen := map[string]string{}
	for _, p := range plugins {
		if p.Source == nil && p.Sink == nil {
			t.Errorf("%s is neither source nor sink", p.Name)
		}
		for _, class := range classes(&p) {
			if other, dup := seen[class]; dup {
				t.Errorf("%s is a class of %s and of %s", class, other, p.Name)
			}
			seen[class] = p.Name
			found, source, sink, err := connectors.Lookup(plugins, class)
			if err != nil || found.Name != p.Name || (source == nil) == (sink == nil) {
				t.Errorf("%s: found %q: %v", class, found.Name, err)
			}
		}
	}
}

func classes(p *connectors.Plugin) []string {
	var out []string
	if p.Source != nil {
		out = append(append(out, p.Name+"-source"), p.Source.Aliases...)
	}
	if p.Sink != nil {
		out = append(append(out, p.Name+"-sink"), p.Sink.Aliases...)
	}
	return out
}

const generated = "<!-- Made from the connectors' config structs by MILLRACE_UPDATE=1 go test ./connectors/builtin; do not edit. -->\n\n"

func index() string {
	var b strings.Builder
	b.WriteString(generated + "# Connectors\n\n| Connector | Classes | For |\n| --- | --- | --- |\n")
	for _, p := range builtin.Plugins() {
		var own []string
		for _, class := range classes(&p) {
			if strings.HasPrefix(class, p.Name+"-") {
				own = append(own, "`"+class+"`")
			}
		}
		b.WriteString("| [" + p.Name + "](" + p.Name + ".md) | " + strings.Join(own, ", ") + " | " + p.Summary + " |\n")
	}
	b.WriteString("\nKeys that all of them have are on [one page](common.md).\n")
	return b.String()
}

func common() string {
	return generated + "# Keys of all connectors\n\nValues may be JSON or, as with Kafka Connect, all text: lists as `a,b`, maps and objects as JSON or as keys with a dot. " +
		"`${env:NAME}`, `${file:/path}` and `${file:/path:key}` stand for values kept elsewhere; they are looked up when the connector starts, and never shown.\n\n## Sources\n\n" +
		spec.Of[connectors.SourceConfig]().Markdown() + "\n## Sinks\n\n" + spec.Of[connectors.SinkConfig]().Markdown()
}

func page(p *connectors.Plugin) string {
	var b strings.Builder
	b.WriteString(generated + "# " + p.Name + "\n\n" + p.Summary + "\n\n" + strings.TrimSpace(p.Docs) + "\n")
	kind := func(name, guarantee string, aliases []string, s *spec.Spec) {
		b.WriteString("\n## `" + p.Name + "-" + name + "`\n\n" + guarantee + "\n\n")
		if len(aliases) > 0 {
			b.WriteString("Also known as `" + strings.Join(aliases, "`, `") + "`.\n\n")
		}
		b.WriteString(s.Markdown() + "\nAnd the [keys of all " + name + "s](common.md).\n")
	}
	if p.Source != nil {
		kind("source", p.Source.Guarantee, p.Source.Aliases, p.Source.Spec)
	}
	if p.Sink != nil {
		kind("sink", p.Sink.Guarantee, p.Sink.Aliases, p.Sink.Spec)
	}
	return b.String()
}
