package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"millrace/rules/pattern"
)

// members reads a JSON object strictly: every key is in known and stands there
// once. Null members are left out.
func members(raw json.RawMessage, path string, known ...string) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errorf(path, "is not an object")
	}
	out := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, errorf(path, "is not JSON: %v", err)
		}
		key := t.(string) // the decoder hands out nothing else between members
		at := dot(path, key)
		if len(known) > 0 && !slices.Contains(known, key) {
			if near := pattern.Nearest(key, known); near != "" {
				return nil, errorf(at, "unknown key: did you mean %q?", near)
			}
			return nil, errorf(at, "unknown key; known are %s", strings.Join(known, ", "))
		}
		if _, twice := out[key]; twice {
			return nil, errorf(at, "is given twice")
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, errorf(at, "is not JSON: %v", err)
		}
		out[key] = v
	}
	for k, v := range out {
		if string(v) == "null" {
			delete(out, k)
		}
	}
	return out, nil
}

func dot(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// text reads a string, if it is there.
func text(v json.RawMessage, path string) (string, error) {
	if v == nil {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "", errorf(path, "must be text in quotes")
	}
	return s, nil
}

func list(v json.RawMessage, path, example string) ([]json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(v, &items); err != nil {
		return nil, errorf(path, "must be a list, such as %s", example)
	}
	return items, nil
}

func count(v json.RawMessage, path string, into *int, limit int) error {
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(v, into); err != nil || *into < 0 || *into > limit {
		return errorf(path, "must be a whole number from 0 to %d", limit)
	}
	return nil
}

// duration reads "90s", "72h" and "40d".
func duration(v json.RawMessage, path string, into *time.Duration) error {
	if v == nil {
		return nil
	}
	s, err := text(v, path)
	if err == nil {
		unit := s
		days, isDays := strings.CutSuffix(s, "d")
		if isDays {
			unit = days + "h"
		}
		d, perr := time.ParseDuration(unit)
		if isDays {
			d *= 24
		}
		if perr == nil && 0 <= d && d <= maxDuration {
			*into = d
			return nil
		}
	}
	return errorf(path, `must be a duration such as "10s", "5m" or "2d", at most 40d`)
}

// maxDuration is the longest pause or age a rule may ask for.
const maxDuration = 40 * 24 * time.Hour

var (
	nameForm   = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`)
	targetForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,100}$`)
	topicForm  = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
	ownForm    = regexp.MustCompile(`^(__|connector-(config|position|offset|status|cluster)-topic$)`)
	notTarget  = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
)

// CheckName refuses what cannot be the name of a rule. The error is an *Error.
func CheckName(name string) error {
	if name == "test" {
		return errorf("name", `"test" is reserved for POST /rules/test: choose another`)
	}
	if !nameForm.MatchString(name) {
		return errorf("name", "%q is not a name: 1 to 100 letters, digits, dots, underscores and dashes", name)
	}
	return nil
}

func checkTopic(topic, path string) error {
	switch {
	case !topicForm.MatchString(topic) || topic == "." || topic == "..":
		return errorf(path, "%q is not a topic name: 1 to 249 letters, digits, dots, underscores and dashes", topic)
	case ownForm.MatchString(topic) && !strings.HasPrefix(topic, "__dead."):
		return errorf(path, "%s is one of Millrace's own topics", topic)
	}
	return nil
}

func item(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
