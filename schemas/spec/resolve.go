package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxSecretFile bounds what a ${file:…} reference reads.
const maxSecretFile = 1 << 20

// Reference is the form of a reference to a value kept elsewhere:
// ${env:NAME}, ${file:/path} or ${file:/path:key}.
var (
	reference     = regexp.MustCompile(`\$\{(env|file):([^{}]*)\}`)
	onlyReference = regexp.MustCompile(`^\$\{(env|file):[^{}]*\}$`)
)

func hasReference(s string) bool {
	return strings.Contains(s, "${") && reference.MatchString(s)
}

// IsReference reports whether s is one reference and nothing else, so that
// showing it shows no secret.
func IsReference(s string) bool { return onlyReference.MatchString(s) }

// Resolve returns a copy of config with every reference inside its text values,
// nested ones too, replaced: ${env:NAME} by an environment variable, ${file:/path}
// by a file's content without white space around it, ${file:/path:key} by one key
// of a .properties or JSON file. What was put in is not looked at again. The error
// is an *Error that names the keys and the references, never what they stand for.
func Resolve(config map[string]any) (map[string]any, error) {
	var problems []Problem
	out := resolveMap(config, "", &problems)
	if len(problems) > 0 {
		return nil, &Error{Problems: problems}
	}
	return out, nil
}

func resolveMap(config map[string]any, prefix string, problems *[]Problem) map[string]any {
	out := make(map[string]any, len(config))
	for _, key := range slices.Sorted(maps.Keys(config)) {
		out[key] = resolveValue(config[key], prefix+key, problems)
	}
	return out
}

func resolveValue(value any, path string, problems *[]Problem) any {
	switch v := value.(type) {
	case string:
		return resolveText(v, path, problems)
	case map[string]any:
		return resolveMap(v, path+".", problems)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = resolveValue(item, path+"["+strconv.Itoa(i)+"]", problems)
		}
		return out
	case json.RawMessage:
		if !hasReference(string(v)) {
			return v
		}
		var inner any
		if err := unmarshalNumbers(v, &inner); err != nil {
			return v // decoding says what is wrong with it
		}
		return resolveValue(inner, path, problems)
	default:
		return value
	}
}

// resolveText replaces the references in s. Inside text that is a JSON object or
// array they are replaced in its values, so that a secret with a quote breaks nothing.
func resolveText(s, path string, problems *[]Problem) any {
	if !hasReference(s) {
		return s
	}
	if strings.ContainsAny(strings.TrimSpace(s)[:1], "{[") {
		var inner any
		if unmarshalNumbers([]byte(s), &inner) == nil {
			b, err := json.Marshal(resolveValue(inner, path, problems))
			if err == nil {
				return string(b)
			}
		}
	}
	return reference.ReplaceAllStringFunc(s, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		value, err := fetch(m[1], m[2])
		if err != nil {
			*problems = append(*problems, Problem{Path: path, Msg: ref + ": " + err.Error()})
		}
		return value
	})
}

func fetch(kind, name string) (string, error) {
	if kind == "env" {
		value, ok := os.LookupEnv(name)
		if !ok {
			return "", errors.New("the environment variable is not set")
		}
		return value, nil
	}
	if content, err := readSecret(name); err == nil {
		return strings.TrimSpace(string(content)), nil
	} else if !strings.Contains(name, ":") || !errors.Is(err, os.ErrNotExist) {
		return "", unwrapPath(err)
	}
	i := strings.LastIndexByte(name, ':')
	content, err := readSecret(name[:i])
	if err != nil {
		return "", unwrapPath(err)
	}
	value, ok := keyOf(content, name[i+1:])
	if !ok {
		return "", fmt.Errorf("the file has no key %q", name[i+1:])
	}
	return value, nil
}

// unwrapPath drops the operation and path, which the reference shows already.
func unwrapPath(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

func readSecret(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err == nil && len(content) > maxSecretFile {
		err = fmt.Errorf("the file is larger than %d bytes", maxSecretFile)
	}
	return content, err
}

// keyOf finds a key in a JSON object or in a .properties file.
func keyOf(content []byte, key string) (string, bool) {
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		var m map[string]any
		if unmarshalNumbers(content, &m) == nil {
			return toText(m[key])
		}
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		if i := strings.IndexAny(line, "=:"); i > 0 && strings.TrimSpace(line[:i]) == key {
			return strings.TrimSpace(line[i+1:]), true
		}
	}
	return "", false
}
