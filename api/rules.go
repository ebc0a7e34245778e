package api

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/schemas/spec"
	"millrace/workers"
)

func (s *Server) ruleRoutes() []rest.Route {
	return []rest.Route{
		{Method: http.MethodGet, Path: "/rules", Handle: s.listRules},
		{Method: http.MethodPost, Path: "/rules/test", Handle: s.testRule},
		{Method: http.MethodGet, Path: "/rules/:rule", Handle: s.getRule},
		{Method: http.MethodPut, Path: "/rules/:rule", Handle: s.putRule},
		{Method: http.MethodDelete, Path: "/rules/:rule", Handle: s.deleteRule, Query: []string{"force"}},
		{Method: http.MethodPost, Path: "/rules/:rule/pause", Handle: s.pauseRule(true)},
		{Method: http.MethodPost, Path: "/rules/:rule/resume", Handle: s.pauseRule(false)},
		{Method: http.MethodPost, Path: "/rules/:rule/replay", Handle: s.replayRule},
	}
}

// rule is a rule as GET shows it; Spec is what was put.
type rule struct {
	Name    string          `json:"name"`
	State   string          `json:"state"`
	Paused  bool            `json:"paused"`
	Created time.Time       `json:"created"`
	Spec    json.RawMessage `json:"spec"`
}

func ruleOf(name string, d workers.RuleDef) rule {
	r := rule{Name: name, State: workers.StateRunning, Paused: d.Paused, Created: d.Created, Spec: shownSpec(d.Spec)}
	if d.Paused {
		r.State = workers.StatePaused
	}
	return r
}

// shownSpec is a spec as it was put, but without secrets that were written out.
func shownSpec(raw json.RawMessage) json.RawMessage {
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return raw
	}
	shown, err := json.Marshal(spec.Redact(v, nil))
	if err != nil || !bytes.Contains(shown, []byte(`"`+spec.Hidden+`"`)) {
		return raw
	}
	return shown
}

func (s *Server) listRules(ctx context.Context, _ *rest.Request) (rest.Answer, error) {
	v, err := s.desired.View(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	out := []rule{}
	for _, name := range slices.Sorted(maps.Keys(v.Rules)) {
		out = append(out, ruleOf(name, v.Rules[name]))
	}
	return rest.OK(out)
}

func (s *Server) getRule(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	name := r.Params["rule"]
	d, err := s.desired.Rule(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	return rest.OK(ruleOf(name, d))
}

func (s *Server) putRule(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	raw, err := r.Object()
	if err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["rule"]
	var def workers.RuleDef
	action, err := s.change(ctx, func(p *desired.Plan) (desired.Action, error) {
		a, err := p.PutRule(ctx, name, raw)
		def = p.Rules[name]
		return a, err
	})
	return rest.Answer{Status: statusOf(action), Body: ruleOf(name, def)}, err
}

func (s *Server) deleteRule(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	return s.remove(ctx, func(p *desired.Plan) error { return p.DeleteRule(r.Params["rule"]) })
}

func (s *Server) pauseRule(paused bool) rest.Handler {
	return func(ctx context.Context, r *rest.Request) (rest.Answer, error) {
		return s.changeRule(ctx, r.Params["rule"], func(d *workers.RuleDef) { d.Paused = paused })
	}
}

func (s *Server) changeRule(ctx context.Context, name string, change func(*workers.RuleDef)) (rest.Answer, error) {
	var def workers.RuleDef
	_, err := s.change(ctx, func(p *desired.Plan) (desired.Action, error) {
		err := p.ChangeRule(name, change)
		def = p.Rules[name]
		return desired.Updated, err
	})
	return rest.Answer{Body: ruleOf(name, def)}, err
}

type replayBody struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// replayRule sends what a rule's topics hold from a place on through the rule
// again.
func (s *Server) replayRule(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var body replayBody
	if err := r.Decode(&body); err != nil {
		return rest.Answer{}, err
	}
	if body.To != "" {
		return rest.Answer{}, rest.Fail(http.StatusNotImplemented, "to", "the replay of a range does not exist yet: leave it out to replay to the end")
	}
	name := r.Params["rule"]
	if _, err := s.desired.Rule(ctx, name); err != nil {
		return rest.Answer{}, err
	}
	if body.From == "" {
		return rest.Answer{}, rest.Bad("from", "is required: earliest, an offset or an RFC 3339 time")
	}
	if err := s.reset(ctx, workers.RuleGroup(name), "from", body.From); err != nil {
		return rest.Answer{}, err
	}
	return rest.Answer{Status: http.StatusAccepted}, nil
}
