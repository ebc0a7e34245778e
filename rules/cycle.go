package rules

import (
	"fmt"
	"slices"
	"strings"
)

// Cycle refuses rules that lead an event from a topic back to it. The error is an
// *Error that names the cycle, as a → b → a, and the rule that closes it.
func Cycle(rules []*Rule) error {
	type edge struct {
		to    string
		field string
		rule  *Rule
	}
	edges := map[string][]edge{}
	var topics []string
	for _, r := range rules {
		for _, from := range r.From {
			if edges[from] == nil {
				topics = append(topics, from)
			}
			for i, t := range r.To {
				if t.Topic != "" {
					edges[from] = append(edges[from], edge{t.Topic, fmt.Sprintf("to[%d].topic", i), r})
				}
			}
		}
	}
	done := map[string]bool{}
	var path []string
	var visit func(topic string) error
	visit = func(topic string) error {
		if done[topic] {
			return nil
		}
		path = append(path, topic)
		for _, e := range edges[topic] {
			if i := slices.Index(path, e.to); i >= 0 {
				round := strings.Join(append(slices.Clone(path[i:]), e.to), " → ")
				return &Error{Rule: e.rule.Name, Field: e.field, Msg: "makes a cycle of topics: " + round}
			}
			if err := visit(e.to); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		done[topic] = true
		return nil
	}
	for _, t := range topics {
		if err := visit(t); err != nil {
			return err
		}
	}
	return nil
}
