package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// resource is one YAML document: what is wanted of one thing.
type resource struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	Spec any    `json:"spec"`

	where string // file:line, for errors
}

// readResources reads every document of a file, of all *.yaml, *.yml and *.json
// files below a directory by name, or of in when path is "-".
func readResources(path string, in io.Reader) ([]resource, error) {
	if path == "-" {
		b, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		return parseResources("stdin", b)
	}
	var all []resource
	found := false
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		ext := strings.ToLower(filepath.Ext(file))
		if entry.IsDir() || file != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			return nil
		}
		found = true
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		list, err := parseResources(file, b)
		all = append(all, list...)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: no .yaml, .yml or .json file in it", path)
	}
	return all, err
}

// parseResources reads the documents of one file.
func parseResources(file string, text []byte) ([]resource, error) {
	docs, err := parseDocuments(file, text)
	if err != nil {
		return nil, err
	}
	list := make([]resource, len(docs))
	for i, doc := range docs {
		if list[i], err = toResource(file, doc); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// parseDocuments parses the documents of one file, empty ones left out.
func parseDocuments(file string, text []byte) ([]*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var docs []*yaml.Node
	for {
		var doc yaml.Node
		err := loader.Load(&doc)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(doc.Content) > 0 && doc.Content[0].Tag != "!!null" {
			docs = append(docs, doc.Content[0])
		}
	}
}

// toResource reads one document; its errors name file, line and key.
func toResource(file string, n *yaml.Node) (resource, error) {
	r := resource{where: fmt.Sprintf("%s:%d", file, n.Line)}
	bad := func(at *yaml.Node, format string, a ...any) (resource, error) {
		return r, fmt.Errorf("%s:%d: %s", file, at.Line, fmt.Sprintf(format, a...))
	}
	if n.Kind != yaml.MappingNode {
		return bad(n, "a document is a mapping of kind, name and spec")
	}
	seen := make(map[string]bool, 3)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if seen[key.Value] {
			return bad(key, "%s: given twice", key.Value)
		}
		seen[key.Value] = true
		switch key.Value {
		case "kind", "name":
			if value.Kind != yaml.ScalarNode || value.Value == "" {
				return bad(value, "%s: must be a word", key.Value)
			}
			if key.Value == "kind" {
				r.Kind = value.Value
			} else {
				r.Name = value.Value
			}
		case "spec":
			spec, err := toSpec(value)
			if err != nil {
				return bad(value, "%v", err)
			}
			r.Spec = spec
		default:
			return bad(key, "%s: unknown key; a document has kind, name and spec", key.Value)
		}
	}
	switch {
	case r.Kind == "":
		return bad(n, "kind: missing; it is Topic, Connector, Rule, Connection …")
	case r.Name == "":
		return bad(n, "name: missing")
	case r.Spec == nil:
		r.Spec = map[string]any{}
	}
	return r, nil
}

// toSpec reads what stands under "spec" as JSON would hold it.
func toSpec(n *yaml.Node) (any, error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	return stringKeys(v, "spec")
}

// stringKeys makes every mapping one of strings, as JSON wants it.
func stringKeys(v any, path string) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			y, err := stringKeys(x, path+"."+k)
			if err != nil {
				return nil, err
			}
			v[k] = y
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, x := range v {
			name := fmt.Sprint(k)
			if _, twice := m[name]; twice {
				return nil, fmt.Errorf("%s.%s: named twice", path, name)
			}
			y, err := stringKeys(x, path+"."+name)
			if err != nil {
				return nil, err
			}
			m[name] = y
		}
		return m, nil
	case []any:
		for i, x := range v {
			y, err := stringKeys(x, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return nil, err
			}
			v[i] = y
		}
	}
	return v, nil
}
