package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	maxTargets = 100
	maxSteps   = 100
	maxTopics  = 1000
)

// Parse reads a rule's spec strictly and fills in the defaults. What stands in
// when, where and transforms is checked by Compile. The error is an *Error.
func Parse(name string, spec []byte) (*Rule, error) {
	r, err := parse(name, spec)
	return r, named(name, err)
}

// named puts the rule's name on its error.
func named(name string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Rule = name
	}
	return err
}

func parse(name string, spec []byte) (*Rule, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if !json.Valid(spec) {
		return nil, errorf("", "the spec is not JSON")
	}
	m, err := members(spec, "", "description", "from", "when", "where", "transforms", "to", "onError", "retry", "deadLetter", "start")
	if err != nil {
		return nil, err
	}
	r := &Rule{Name: name, When: clone(m["when"]), Where: clone(m["where"])}
	if r.Description, err = text(m["description"], "description"); err != nil {
		return nil, err
	}
	if r.From, err = parseFrom(m["from"]); err != nil {
		return nil, err
	}
	if r.Transforms, err = list(clone(m["transforms"]), "transforms", `[{"remove": ["data.card"]}]`); err != nil {
		return nil, err
	}
	if len(r.Transforms) > maxSteps {
		return nil, errorf("transforms", "has %d steps; at most %d are allowed", len(r.Transforms), maxSteps)
	}
	if r.To, err = parseTargets(m["to"]); err != nil {
		return nil, err
	}
	if r.OnError, err = choice(m["onError"], "onError", "", Block, ParkKey, Skip); err != nil {
		return nil, err
	}
	if r.Retry, err = parseRetry(m["retry"]); err != nil {
		return nil, err
	}
	if r.DeadLetter, err = parseDeadLetter(m["deadLetter"]); err != nil {
		return nil, err
	}
	if r.Start, err = parseStart(m["start"]); err != nil {
		return nil, err
	}
	return r, nil
}

func clone(v json.RawMessage) json.RawMessage { return bytes.Clone(v) }

func parseFrom(v json.RawMessage) ([]string, error) {
	const example = `["orders"]`
	items, err := list(v, "from", example)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errorf("from", "is required: the topics to read, such as %s", example)
	}
	if len(items) > maxTopics {
		return nil, errorf("from", "names %d topics; at most %d are allowed", len(items), maxTopics)
	}
	var from []string
	for i, it := range items {
		topic, err := text(it, item("from", i))
		if err != nil {
			return nil, err
		}
		if err := checkTopic(topic, item("from", i)); err != nil {
			return nil, err
		}
		if slices.Contains(from, topic) {
			return nil, errorf(item("from", i), "%s is named twice", topic)
		}
		from = append(from, topic)
	}
	return from, nil
}

func parseTargets(v json.RawMessage) ([]Target, error) {
	const example = `[{"topic": "big-orders"}], [{"connector": "orders-to-es"}] or [{"http": {"url": "https://…"}}]`
	items, err := list(v, "to", example)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, errorf("to", "is required: where the events go, such as %s", example)
	}
	if len(items) > maxTargets {
		return nil, errorf("to", "names %d targets; at most %d are allowed", len(items), maxTargets)
	}
	var to []Target
	for i, it := range items {
		at := item("to", i)
		t, err := parseTarget(it, at, i+1)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(to, func(o Target) bool { return o.Name == t.Name }) {
			return nil, errorf(at, `there are two targets named %s: give one its own "name"`, t.Name)
		}
		to = append(to, t)
	}
	return to, nil
}

func parseTarget(v json.RawMessage, path string, n int) (t Target, err error) {
	m, err := members(v, path, "name", "topic", "connector", "http")
	if err != nil {
		return t, err
	}
	if t.Topic, err = text(m["topic"], path+".topic"); err != nil {
		return t, err
	}
	if t.Connector, err = text(m["connector"], path+".connector"); err != nil {
		return t, err
	}
	kinds := 0
	for _, key := range []string{"topic", "connector", "http"} {
		if m[key] != nil {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return t, errorf(path, `must hold exactly one of "topic", "connector" and "http"`)
	case m["topic"] != nil:
		if err := checkTopic(t.Topic, path+".topic"); err != nil {
			return t, err
		}
		t.Name = t.Topic
	case m["connector"] != nil:
		if t.Connector == "" {
			return t, errorf(path+".connector", "is empty: name a connector")
		}
		t.Name = t.Connector
	default:
		if t.HTTP, err = parseHTTP(m["http"], path+".http"); err != nil {
			return t, err
		}
		t.Name = fmt.Sprintf("http-%d", n)
	}
	if m["name"] == nil {
		t.Name = notTarget.ReplaceAllString(t.Name, "_")
		t.Name = t.Name[:min(len(t.Name), 100)]
		return t, nil
	}
	if t.Name, err = text(m["name"], path+".name"); err == nil && !targetForm.MatchString(t.Name) {
		err = errorf(path+".name", "%q is not a name: 1 to 100 letters, digits, underscores and dashes", t.Name)
	}
	return t, err
}

func parseHTTP(v json.RawMessage, path string) (*HTTP, error) {
	m, err := members(v, path)
	if err != nil {
		return nil, err
	}
	h := &HTTP{Config: map[string]json.RawMessage{}}
	for k, x := range m {
		h.Config[k] = clone(x)
	}
	if h.URL, err = text(m["url"], path+".url"); err != nil {
		return nil, err
	}
	if h.Connection, err = text(m["connection"], path+".connection"); err != nil {
		return nil, err
	}
	switch u, err := url.Parse(h.URL); {
	case h.URL == "":
		return nil, errorf(path+".url", `is required, such as "https://example.com/hook"`)
	case strings.Contains(h.URL, "${"): // known only where the reference is resolved
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, errorf(path+".url", `is not an http or https URL, such as "https://example.com/hook"`)
	}
	return h, nil
}

// choice reads one of a few words.
func choice[T ~string](v json.RawMessage, path string, def T, all ...T) (T, error) {
	s, err := text(v, path)
	if err != nil || v == nil {
		return def, err
	}
	if !slices.Contains(all, T(s)) {
		words := make([]string, len(all))
		for i, a := range all {
			words[i] = string(a)
		}
		return def, errorf(path, "%q is not one of %s", s, strings.Join(words, ", "))
	}
	return T(s), nil
}

func parseRetry(v json.RawMessage) (r Retry, err error) {
	m := map[string]json.RawMessage{}
	if v != nil {
		if m, err = members(v, "retry", "strategy", "attempts", "delay", "maxDelay", "jitter", "maxAge"); err != nil {
			return r, err
		}
	}
	s, err := choice(m["strategy"], "retry.strategy", Backoff, Backoff, Exponential, Custom)
	if err != nil {
		return r, err
	}
	switch s {
	case Exponential:
		r = Retry{Attempts: 176, Delay: time.Second, MaxDelay: 512 * time.Second, MaxAge: 24 * time.Hour}
	case Backoff:
		r = Retry{Attempts: 3, Delay: 10 * time.Second, MaxDelay: 10 * time.Second, Jitter: 10 * time.Second}
	case Custom:
		r = Retry{Attempts: 3, Delay: time.Second}
	}
	r.Strategy = s
	if err := count(m["attempts"], "retry.attempts", &r.Attempts, 1_000_000); err != nil {
		return r, err
	}
	for _, f := range []struct {
		key  string
		into *time.Duration
	}{{"delay", &r.Delay}, {"maxDelay", &r.MaxDelay}, {"jitter", &r.Jitter}, {"maxAge", &r.MaxAge}} {
		if err := duration(m[f.key], "retry."+f.key, f.into); err != nil {
			return r, err
		}
	}
	if m["maxDelay"] == nil {
		r.MaxDelay = max(r.MaxDelay, r.Delay)
	} else if r.MaxDelay < r.Delay {
		return r, errorf("retry.maxDelay", "is shorter than delay (%s)", r.Delay)
	}
	return r, nil
}

func parseDeadLetter(v json.RawMessage) (d DeadLetter, err error) {
	if v == nil {
		return d, nil
	}
	m, err := members(v, "deadLetter", "topic")
	if err != nil {
		return d, err
	}
	if d.Topic, err = text(m["topic"], "deadLetter.topic"); err != nil {
		return d, err
	}
	return d, checkTopic(d.Topic, "deadLetter.topic")
}

func parseStart(v json.RawMessage) (Start, error) {
	s, err := text(v, "start")
	switch {
	case err != nil || v == nil || s == "latest":
		return Start{}, err
	case s == "earliest":
		return Start{Earliest: true}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.IsZero() {
		return Start{}, errorf("start", `%q is not "latest", "earliest" or an RFC 3339 time such as 2026-01-31T09:30:00Z`, s)
	}
	return Start{Time: t}, nil
}
