package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
)

func newRule() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rule",
		Short: "Try and steer rules",
		Args:  args(cobra.NoArgs),
		RunE:  showHelp,
	}
	cmd.AddCommand(
		newRuleTest(),
		newVerb("rule", http.MethodPost, "pause", "Hold a rule: nothing moves, nothing is lost", ""),
		newVerb("rule", http.MethodPost, "resume", "Let a paused rule run", ""),
	)
	return cmd
}

func newRuleTest() *cobra.Command {
	var events string
	cmd := &cobra.Command{
		Use:   "test FILE --event FILE",
		Short: "Show what a rule would do with events; changes nothing",
		Long: `Show what a rule would do with events: whether each matches, why, and what comes
out. FILE holds one Rule document, others beside it, or only a rule's spec; the event file holds one
CloudEvent, an array of them, or one a line.`,
		Example: "  millrace rule test rule.yaml --event order.json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if events == "" {
				return usagef("--event: name a file with events; - for stdin")
			}
			form, err := form(cmd)
			if err != nil {
				return err
			}
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			rule, err := readRule(given[0])
			if err != nil {
				return err
			}
			list, err := readEvents(events, cmd.InOrStdin())
			if err != nil {
				return err
			}
			raw, err := c.raw(cmd.Context(), http.MethodPost, "/rules/test", map[string]any{"rule": rule, "events": list})
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), form, raw, ruleTestTable)
		},
	}
	cmd.Flags().StringVar(&events, "event", "", "file with CloudEvents as JSON; - for stdin")
	outputFlag(cmd)
	clientFlags(cmd)
	return cmd
}

// readRule reads a rule's spec from a file: the one document of kind Rule in it,
// or a spec by itself.
func readRule(file string) (any, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	docs, err := parseDocuments(file, b)
	if err != nil {
		return nil, err
	}
	if len(docs) == 1 && !hasKey(docs[0], "kind") {
		return toSpec(docs[0])
	}
	var rules []any
	for _, doc := range docs {
		r, err := toResource(file, doc)
		if err != nil {
			return nil, err
		}
		if r.Kind == "Rule" {
			rules = append(rules, r.Spec)
		}
	}
	if len(rules) != 1 {
		return nil, fmt.Errorf("%s: has %d documents of kind Rule, one is wanted", file, len(rules))
	}
	return rules[0], nil
}

// hasKey reports whether a mapping has a key.
func hasKey(n *yaml.Node, key string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Kind == yaml.MappingNode && n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// readEvents reads one event, an array or a stream of events.
func readEvents(file string, in io.Reader) ([]json.RawMessage, error) {
	var b []byte
	var err error
	if file == "-" {
		b, err = io.ReadAll(in)
	} else {
		b, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(b))
	for {
		var v json.RawMessage
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: byte %d: %w", file, dec.InputOffset(), err)
		}
		if len(v) > 0 && v[0] == '[' {
			var more []json.RawMessage
			if err := json.Unmarshal(v, &more); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			list = append(list, more...)
			continue
		}
		list = append(list, v)
	}
}

// ruleTest is what a node says about a rule and one event.
type ruleTest struct {
	Matched bool
	Explain []struct {
		Path, Op      string
		Wanted, Found json.RawMessage
		OK            bool
		Error         string
	}
	Output []json.RawMessage
	Error  string
}

func ruleTestTable(raw json.RawMessage) (table, error) {
	var list []ruleTest
	t := table{head: []string{"EVENT", "WHAT", "DETAIL"}}
	err := decodeAnswer(raw, &list)
	for i, x := range list {
		verdict := "does not match"
		if x.Matched {
			verdict = "matches"
		}
		t.add(i, verdict, x.Error)
		for _, e := range x.Explain {
			what := "fails"
			if e.OK {
				what = "holds"
			}
			detail := fmt.Sprintf("%s: %s %s", e.Path, e.Op, readable(e.Wanted))
			if !e.OK {
				detail += ", found " + readable(e.Found)
			}
			if e.Error != "" {
				detail += ": " + e.Error
			}
			t.add("", what, detail)
		}
		for _, e := range x.Output {
			t.add("", "output", readable(e))
		}
	}
	return t, err
}

// readable is JSON without the escapes that only HTML needs.
func readable(raw json.RawMessage) string {
	return strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(string(raw))
}
