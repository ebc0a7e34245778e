package desired

import (
	"encoding/json"
	"slices"

	"millrace/rules"
)

// refs is what a rule's spec names.
type refs struct {
	From []string `json:"from"`
	To   []struct {
		Topic     string `json:"topic"`
		Connector string `json:"connector"`
		HTTP      struct {
			Connection string `json:"connection"`
		} `json:"http"`
	} `json:"to"`
	DeadLetter struct {
		Topic string `json:"topic"`
	} `json:"deadLetter"`
}

// refsOf reads what a stored spec names; it was checked when it was stored.
func refsOf(raw json.RawMessage) refs {
	var r refs
	_ = json.Unmarshal(raw, &r) // what can be told is enough
	return r
}

func (r refs) uses(topic string) bool {
	return slices.Contains(r.From, topic) || slices.Contains(r.topics(), topic) || r.DeadLetter.Topic == topic
}

// topics are the topics that the rule writes to.
func (r refs) topics() (out []string) {
	for _, t := range r.To {
		if t.Topic != "" {
			out = append(out, t.Topic)
		}
	}
	return out
}

func (r refs) connectors() (out []string) {
	for _, t := range r.To {
		if t.Connector != "" {
			out = append(out, t.Connector)
		}
	}
	return out
}

func (r refs) connections() (out []string) {
	for _, t := range r.To {
		if t.HTTP.Connection != "" {
			out = append(out, t.HTTP.Connection)
		}
	}
	return out
}

// rule is what rules.Cycle needs to know of a rule.
func (r refs) rule(name string) *rules.Rule {
	out := &rules.Rule{Name: name, From: r.From}
	for _, t := range r.To {
		out.To = append(out.To, rules.Target{Topic: t.Topic})
	}
	return out
}
