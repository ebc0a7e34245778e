package desired

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/api/rest"
	"millrace/bus"
	"millrace/rules"
	"millrace/workers"
)

// PutRule plans to make or replace a rule, and the topics that it reads and
// writes where they are missing. A new rule begins where its start says; one that
// replaces another goes on from where that stands.
func (p *Plan) PutRule(ctx context.Context, name string, raw json.RawMessage) (Action, error) {
	program, err := CompileRule(name, raw, p.s.o.Now)
	if err != nil {
		return "", err
	}
	rule, r := program.Rule, refsOf(raw)
	if err := p.checkTargets(rule); err != nil {
		return "", err
	}
	if err := p.checkCycle(name, r); err != nil {
		return "", err
	}
	old, exists := p.Rules[name]
	if exists && sameJSON(old.Spec, raw) {
		return Unchanged, nil
	}
	def := workers.RuleDef{Spec: raw, Created: p.s.o.Now().UTC(), Starts: map[string]int64{}}
	if exists {
		def.Created, def.Paused = old.Created, old.Paused
		maps.Copy(def.Starts, old.Starts)
	} else {
		p.forgetRule(name)
	}
	if err := p.ruleStarts(ctx, rule, def.Starts); err != nil {
		return "", err
	}
	for _, topic := range append(slices.Clone(rule.From), r.topics()...) {
		p.needTopic(topic)
	}
	p.Rules[name] = def
	if err := p.put(workers.TopicRules, name, def); err != nil {
		return "", err
	}
	if exists {
		return Updated, nil
	}
	return Created, nil
}

// CompileRule reads and checks a rule by itself; the error names the field.
func CompileRule(name string, raw json.RawMessage, now func() time.Time) (*rules.Program, error) {
	err := rules.CheckName(name)
	var program *rules.Program
	if err == nil {
		var rule *rules.Rule
		if rule, err = rules.Parse(name, raw); err == nil {
			program, err = rules.Compile(rule, rules.Env{Now: now})
		}
	}
	return program, ruleError(err)
}

func ruleError(err error) error {
	if re, ok := errors.AsType[*rules.Error](err); ok {
		return rest.Bad(re.Field, "%s", re.Msg)
	}
	return err
}

// checkTargets checks that what a rule names is there or may be made.
func (p *Plan) checkTargets(rule *rules.Rule) error {
	for i, topic := range rule.From {
		if bus.InternalTopic(topic) && !strings.HasPrefix(topic, workers.DeadTopic("")) {
			return CheckTopic(index("from", i), topic)
		}
	}
	for i, t := range rule.To {
		here := index("to", i)
		if t.Topic != "" {
			if err := CheckTopic(here+".topic", t.Topic); err != nil {
				return err
			}
		}
		if t.Connector != "" {
			def, ok := p.Connectors[t.Connector]
			if !ok {
				return rest.Bad(here+".connector", "there is no connector %s%s: create it first, with POST /connectors", t.Connector, rest.Suggest(t.Connector, sortedKeys(p.Connectors)))
			}
			if c := p.s.connector(def); c.Sink == nil {
				return rest.Bad(here+".connector", "connector %s is a %s: a rule delivers to sinks", t.Connector, c.Type())
			}
		}
		if t.HTTP != nil {
			if err := p.checkHTTP(here+".http", t.HTTP); err != nil {
				return err
			}
		}
	}
	if t := rule.DeadLetter.Topic; t != "" {
		if have, ok := p.topics[t]; ok && workers.CheckDeadLetter(have) != nil {
			return rest.Bad("deadLetter.topic", "topic %s is %s but dead letters need a compacted one: name another, it is made when it is missing", t, have.Type)
		}
	}
	return nil
}

// checkHTTP checks an HTTP target as its sink will read it: the keys of the
// connection beneath its own.
func (p *Plan) checkHTTP(here string, target *rules.HTTP) error {
	var connection json.RawMessage
	if c := target.Connection; c != "" {
		keys, ok := p.Connections[c]
		if !ok {
			return rest.Bad(here+".connection", "there is no connection %s%s: create it first, with PUT /connections/%s", c, rest.Suggest(c, sortedKeys(p.Connections)), c)
		}
		var err error
		if connection, err = json.Marshal(keys); err != nil {
			return err
		}
	}
	return rest.At(here, workers.CheckHTTP(p.s.o.Plugins, target, connection))
}

// checkCycle refuses a rule that would lead an event round.
func (p *Plan) checkCycle(name string, r refs) error {
	var all []*rules.Rule
	for _, other := range sortedKeys(p.Rules) {
		if other != name {
			all = append(all, refsOf(p.Rules[other].Spec).rule(other))
		}
	}
	err := rules.Cycle(append(all, r.rule(name)))
	if re, ok := errors.AsType[*rules.Error](err); ok && re.Rule != name {
		return rest.Bad("to", "%s, closed by rule %s", re.Msg, re.Rule)
	}
	return ruleError(err)
}

// ruleStarts fixes where the rule begins in each queue of its topics that has no
// place yet.
func (p *Plan) ruleStarts(ctx context.Context, rule *rules.Rule, into map[string]int64) error {
	at := Place{Kind: Latest}
	switch {
	case rule.Start.Earliest:
		at.Kind = Earliest
	case !rule.Start.Time.IsZero():
		at = Place{Kind: AtTime, Time: rule.Start.Time}
	}
	found := map[string]int64{}
	for _, topic := range rule.From {
		if err := p.startsOf(ctx, topic, at, found); err != nil {
			return err
		}
	}
	maps.DeleteFunc(into, func(slot string, _ int64) bool { _, still := found[slot]; return !still })
	for slot, next := range found {
		if _, has := into[slot]; !has {
			into[slot] = next
		}
	}
	return nil
}

// Rule returns one rule, or a 404.
func (s *Store) Rule(ctx context.Context, name string) (workers.RuleDef, error) {
	v, err := s.View(ctx)
	if err != nil {
		return workers.RuleDef{}, err
	}
	def, ok := v.Rules[name]
	if !ok {
		return def, noRule(name)
	}
	return def, nil
}

// ChangeRule plans a change of a rule's definition other than its spec.
func (p *Plan) ChangeRule(name string, change func(*workers.RuleDef)) error {
	def, ok := p.Rules[name]
	if !ok {
		return noRule(name)
	}
	change(&def)
	p.Rules[name] = def
	return p.put(workers.TopicRules, name, def)
}

// DeleteRule plans to remove a rule with its delivery topics and its group. Its
// dead letters stay.
func (p *Plan) DeleteRule(name string) error {
	if _, ok := p.Rules[name]; !ok {
		return noRule(name)
	}
	delete(p.Rules, name)
	p.remove(workers.TopicRules, name)
	for _, topic := range p.deliveryTopics(name) {
		p.drop = append(p.drop, drop{topic: topic, force: true})
	}
	p.forgets = append(p.forgets, workers.RuleGroup(name))
	return nil
}

// forgetRule plans to remove, before a rule is made, what one of the same name
// may have left.
func (p *Plan) forgetRule(name string) {
	p.stale = append(p.stale, p.deliveryTopics(name)...)
	p.forget = append(p.forget, workers.RuleGroup(name))
}

// deliveryTopics are the topics of a rule's targets, "__rule.<rule>.<target>"; a
// rule's name may hold dots, a target's does not.
func (p *Plan) deliveryTopics(name string) (out []string) {
	for _, topic := range sortedKeys(p.topics) {
		target, ok := strings.CutPrefix(topic, workers.TargetTopic(name, ""))
		if ok && !strings.Contains(target, ".") {
			out = append(out, topic)
		}
	}
	return out
}

func noRule(name string) error {
	return rest.NotFound("no such rule: %s: create it with PUT /rules/%s", name, name)
}
