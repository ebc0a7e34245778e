package spec

import (
	"maps"
	"reflect"
	"regexp"
	"strings"
)

// JSONSchema describes the configs in JSON Schema, draft 2020-12. Numbers,
// booleans, lists and maps are also allowed as text, as flat configs have them.
func (s *Spec) JSONSchema() map[string]any {
	schema := s.object()
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	return schema
}

func (s *Spec) object() map[string]any {
	properties, patterns := map[string]any{}, map[string]any{}
	var required []any
	for i := range s.fields {
		f := &s.fields[i]
		properties[f.Name] = f.schema()
		if f.Required {
			required = append(required, f.Name)
		}
		if f.Kind == Map {
			patterns["^"+regexp.QuoteMeta(f.Name)+`\..`] = f.Elem.schema()
		}
		if f.Kind == Object {
			for j := range f.Object.fields {
				inner := &f.Object.fields[j]
				properties[f.Name+"."+inner.Name] = inner.schema()
			}
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(patterns) > 0 {
		schema["patternProperties"] = patterns
	}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func (f *Field) schema() map[string]any {
	schema := map[string]any{}
	if f.Doc != "" {
		schema["description"], schema["title"] = f.Doc, f.Label
	}
	if f.Secret {
		schema["writeOnly"] = true
	}
	if f.HasDefault && !f.Secret {
		schema["default"] = f.jsonDefault()
	}
	switch f.Kind {
	case String:
		schema["type"] = []any{"string", "number", "boolean"}
		if len(f.Enum) > 0 {
			schema["type"] = "string"
			schema["enum"] = anys(f.Enum)
		}
	case Bool:
		schema["type"] = []any{"boolean", "string"}
	case Int:
		schema["type"] = []any{"integer", "string"}
		f.bounds(schema, "minimum", "maximum")
	case Float:
		schema["type"] = []any{"number", "string"}
		f.bounds(schema, "minimum", "maximum")
	case Size:
		schema["type"] = []any{"integer", "string"}
		f.bounds(schema, "minimum", "maximum")
	case Duration:
		schema["type"] = "string"
		if f.millis {
			schema["type"] = []any{"integer", "string"}
		}
	case List:
		schema["type"], schema["items"] = []any{"array", "string"}, f.Elem.schema()
		f.bounds(schema, "minItems", "maxItems")
	case Map:
		schema["type"], schema["additionalProperties"] = []any{"object", "string"}, f.Elem.schema()
	case Object:
		maps.Copy(schema, f.Object.object())
		schema["type"] = []any{"object", "string"}
	case Any:
	}
	return schema
}

func (f *Field) bounds(schema map[string]any, low, high string) {
	if f.Min != "" {
		schema[low] = f.min
	}
	if f.Max != "" {
		schema[high] = f.max
	}
}

// jsonDefault is the default as a value of JSON where it has one.
func (f *Field) jsonDefault() any {
	v, problems := f.convert(f.Default, f.Name, true)
	if len(problems) > 0 || !v.IsValid() {
		return f.Default
	}
	switch f.Kind {
	case Bool:
		return v.Bool()
	case Int:
		if v.CanUint() {
			return v.Uint()
		}
		return v.Int()
	case Float:
		return v.Float()
	case List:
		items := make([]any, v.Len())
		for i := range items {
			item := v.Index(i)
			if item.Kind() != reflect.String {
				return f.Default
			}
			items[i] = item.String()
		}
		return items
	case String, Duration, Size, Map, Object, Any:
	}
	return f.Default
}

func anys(in []string) []any {
	out := make([]any, len(in))
	for i := range in {
		out[i] = in[i]
	}
	return out
}

// Markdown is the reference of all keys: a table for each group.
func (s *Spec) Markdown() string {
	var groups []string
	rows := map[string][]string{}
	for i := range s.fields {
		f := &s.fields[i]
		if rows[f.Group] == nil {
			groups = append(groups, f.Group)
		}
		rows[f.Group] = append(rows[f.Group], f.rows("")...)
	}
	var b strings.Builder
	for i, group := range groups {
		if i > 0 {
			b.WriteString("\n")
		}
		if len(groups) > 1 {
			b.WriteString("### " + group + "\n\n")
		}
		b.WriteString("| Key | Type | Default | Description |\n| --- | --- | --- | --- |\n")
		for _, row := range rows[group] {
			b.WriteString(row)
		}
	}
	return b.String()
}

// rows are the lines of a field and of what is nested in it.
func (f *Field) rows(prefix string) []string {
	def := ""
	switch {
	case f.Required:
		def = "*required*"
	case f.HasDefault && f.Default == "":
		def = `""`
	case f.HasDefault:
		def = "`" + f.Default + "`"
	}
	doc := f.Doc
	if len(f.Enum) > 0 {
		doc += " One of `" + strings.Join(f.Enum, "`, `") + "`."
	}
	switch {
	case f.Min != "" && f.Max != "":
		doc += " From " + f.Min + " to " + f.Max + "."
	case f.Min != "":
		doc += " At least " + f.Min + "."
	case f.Max != "":
		doc += " At most " + f.Max + "."
	}
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	name := prefix + f.Name
	out := []string{"| `" + name + "` | " + f.TypeName() + " | " + cell.Replace(def) + " | " + cell.Replace(doc) + " |\n"}
	object, inner := f.Object, name+"."
	if f.Elem != nil && f.Elem.Kind == Object {
		object, inner = f.Elem.Object, name+"[]."
	}
	if object != nil {
		for i := range object.fields {
			out = append(out, object.fields[i].rows(inner)...)
		}
	}
	return out
}

// TypeName is the field's type in words, for pages.
func (f *Field) TypeName() string {
	switch {
	case f.Kind == String && f.Secret:
		return "secret"
	case f.Kind == Duration && f.millis:
		return "milliseconds"
	}
	switch f.Kind {
	case String:
		return "text"
	case Bool:
		return "boolean"
	case Int:
		return "integer"
	case Float:
		return "number"
	case Duration:
		return "duration"
	case Size:
		return "size"
	case List:
		return "list of " + f.Elem.TypeName()
	case Map:
		return "map of " + f.Elem.TypeName()
	case Object:
		return "object"
	case Any:
	}
	return "JSON"
}
