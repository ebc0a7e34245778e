package api

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/bus/event"
	"millrace/rules"
)

type testBody struct {
	Rule   json.RawMessage   `json:"rule"`
	Events []json.RawMessage `json:"events"`
}

// tested is what a rule would do with one event.
type tested struct {
	Matched bool              `json:"matched"`
	Explain []rules.Condition `json:"explain"`
	Output  []json.RawMessage `json:"output"`
	Error   string            `json:"error,omitempty"` // of the where or of a step
}

// maxTestEvents bounds the events of one test. Invariant 10.
const maxTestEvents = 1000

// testRule shows what a rule would do; it stores and changes nothing, and the
// rule's targets need not exist.
func (s *Server) testRule(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var body testBody
	if err := r.Decode(&body); err != nil {
		return rest.Answer{}, err
	}
	if len(body.Rule) == 0 {
		return rest.Answer{}, rest.Bad("rule", "is required: the spec of a rule")
	}
	if len(body.Events) > maxTestEvents {
		return rest.Answer{}, rest.Bad("events", "are %d: test at most %d at once", len(body.Events), maxTestEvents)
	}
	program, err := desired.CompileRule("tested", body.Rule, s.now)
	if err != nil {
		return rest.Answer{}, rest.At("rule", err)
	}
	out := make([]tested, len(body.Events))
	for i, raw := range body.Events {
		e, err := event.ParseJSON(raw)
		if err != nil {
			return rest.Answer{}, rest.At(fmt.Sprintf("events[%d]", i), err)
		}
		if out[i], err = testOne(ctx, program, e); err != nil {
			return rest.Answer{}, err
		}
	}
	return rest.OK(out)
}

func testOne(ctx context.Context, program *rules.Program, e event.Event) (tested, error) {
	t := tested{Explain: rules.Explain(program, &e), Output: []json.RawMessage{}}
	if t.Explain == nil {
		t.Explain = []rules.Condition{}
	}
	matched, err := program.Match(&e)
	if err != nil {
		t.Error = err.Error()
	}
	if t.Matched = matched; !matched {
		return t, nil
	}
	results, err := program.Chain.Apply(ctx, []event.Event{e})
	if err != nil {
		return t, err
	}
	for _, r := range results {
		if r.Err != nil {
			t.Error = r.Err.Error()
			continue
		}
		t.Output = append(t.Output, event.AppendJSON(nil, &r.Event))
	}
	return t, nil
}
