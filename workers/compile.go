package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/rules"
	"millrace/transforms"
	"millrace/workers/deliver"
	"millrace/workers/loop"
)

// readRule reads and compiles a rule; what is wrong with it is kept in err.
func readRule(name string, def RuleDef, now func() time.Time) *ruleInfo {
	info := &ruleInfo{name: name, def: def}
	if info.rule, info.err = rules.Parse(name, def.Spec); info.err != nil {
		return info
	}
	if info.program, info.err = rules.Compile(info.rule, rules.Env{Now: now}); info.err != nil {
		return info
	}
	info.policy = loop.Policy{
		Retry:   scheduleOf(&info.rule.Retry),
		OnError: loop.OnError(info.rule.OnError),
		Dead:    cmp.Or(info.rule.DeadLetter.Topic, DeadTopic(name)),
	}
	return info
}

func scheduleOf(r *rules.Retry) loop.Schedule {
	return loop.Schedule{Tries: r.Attempts, Delay: r.Delay, Max: r.MaxDelay, Factor: 2, Spread: r.Jitter, Within: r.MaxAge}
}

// lane is what a rule does with the events of one of its delivery topics.
func (info *ruleInfo) lane(topic, target string) *deliver.Lane {
	return &deliver.Lane{Topic: topic, Target: target, Policy: info.policy, Stages: info.stages()}
}

func (info *ruleInfo) stages() []loop.Stage {
	if len(info.rule.Transforms) == 0 {
		return nil
	}
	return []loop.Stage{chainStage(info.rule.Transforms)}
}

// chainStage runs steps; the conditions that fail in it are counted by its task.
func chainStage(steps []json.RawMessage) loop.Stage {
	return loop.Stage{Drop: loop.DropStep, Make: func(t *loop.Task) (transforms.Transform, error) {
		return transforms.Compile(steps, transforms.Env{Now: t.Now, Miss: func(int, error) { t.Counters.Misses.Add(1) }})
	}}
}

// filter is a stage of a pattern or an expression.
type filter struct {
	set     *rules.Set
	scratch rules.Scratch
	misses  *loop.Counters
}

// filterStage keeps the events that a rule's when and where want.
func filterStage(r *rules.Rule, why loop.Drop) loop.Stage {
	return loop.Stage{Drop: why, Make: func(t *loop.Task) (transforms.Transform, error) {
		p, err := rules.Compile(r, rules.Env{Now: t.Now})
		if err != nil {
			return nil, err
		}
		return &filter{set: rules.NewSet([]*rules.Program{p}), misses: t.Counters}, nil
	}}
}

// Apply implements transforms.Transform.
func (f *filter) Apply(_ context.Context, in []event.Event) ([]transforms.Result, error) {
	out := make([]transforms.Result, 0, len(in))
	for i := range in {
		if len(f.set.Match(&in[i], &f.scratch)) > 0 {
			out = append(out, transforms.Result{Parent: i, Event: in[i]})
		}
		f.misses.Misses.Add(int64(len(f.scratch.Failures)))
	}
	return out, nil
}

// sourceOf makes a source's unit.
func sourceOf(name string, parsed connectors.Parsed) (*sourceDef, error) {
	conf := &parsed.SourceConfig
	d := &sourceDef{
		name: name, parsed: parsed, dead: cmp.Or(conf.DeadLetter, DeadTopic(name)),
		tasks: max(1, min(conf.TasksMax, max(1, parsed.Source.MaxTasks))),
	}
	steps, err := stepsOf(conf.Transforms)
	if err != nil {
		return nil, err
	}
	if len(steps) > 0 {
		st := chainStage(steps)
		d.chain = &st
	}
	return d, nil
}

// stepsOf reads a connector's transforms and checks them.
func stepsOf(raw json.RawMessage) (steps []json.RawMessage, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &steps); err != nil {
		return nil, errors.New(`transforms: must be a list of steps such as [{"remove": ["data.card"]}]`)
	}
	_, err = transforms.Compile(steps, transforms.Env{})
	return steps, err
}

// sinkUnit makes the lanes of a sink connector.
type sinkUnit struct {
	def    *deliver.Unit
	stages []loop.Stage
	policy loop.Policy
}

// sinkOf makes a sink connector's unit, without lanes.
func sinkOf(name string, parsed connectors.Parsed) (*sinkUnit, error) {
	conf := &parsed.SinkConfig
	u := &sinkUnit{def: &deliver.Unit{
		Name: name, Lanes: map[string]*deliver.Lane{}, Log: conf.Log,
		Sink: &deliver.Sink{
			Open: func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
				return parsed.Sink.Open(ctx, parsed.Own, env)
			},
			Records: conf.BatchRecords, Bytes: int(conf.BatchBytes), Interval: conf.FlushInterval,
		},
	}}
	steps, err := stepsOf(conf.Transforms)
	if err != nil {
		return nil, err
	}
	// A sink with filters is a rule without transforms: one reader for both.
	as := func(when, where json.RawMessage) (*rules.Rule, error) {
		spec, err := json.Marshal(map[string]any{
			"from": []string{"all"}, "to": []any{map[string]string{"topic": "all"}},
			"when": orNull(when), "where": orNull(where), "retry": orNull(conf.Retry),
		})
		if err != nil {
			return nil, fmt.Errorf("when, where or retry is not JSON: %w", err)
		}
		r, err := rules.Parse("connector", spec)
		if err != nil {
			return nil, err
		}
		_, err = rules.Compile(r, rules.Env{})
		return r, err
	}
	var r *rules.Rule
	if r, err = as(conf.When, nil); err != nil {
		return nil, err
	}
	u.policy = loop.Policy{OnError: loop.OnError(conf.Policy()), Dead: cmp.Or(conf.DeadLetter, DeadTopic(name))}
	if len(conf.Retry) > 0 {
		u.policy.Retry = scheduleOf(&r.Retry)
		if conf.RetryTimeout >= 0 {
			u.policy.Retry.Within = conf.RetryTimeout
		}
	} else {
		u.policy.Retry = loop.Connect(conf.RetryTimeout, conf.RetryDelay)
	}
	if len(conf.When) > 0 {
		u.stages = append(u.stages, filterStage(r, loop.DropWhen))
	}
	if len(conf.Where) > 0 {
		if r, err = as(nil, whereOf(conf.Where)); err != nil {
			return nil, err
		}
		u.stages = append(u.stages, filterStage(r, loop.DropWhere))
	}
	if len(steps) > 0 {
		u.stages = append(u.stages, chainStage(steps))
	}
	return u, nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// whereOf takes a where as it stands in a flat config: an expression as it is, or
// JSON.
func whereOf(raw json.RawMessage) json.RawMessage {
	if json.Valid(raw) && (raw[0] == '{' || raw[0] == '"') {
		return raw
	}
	quoted, _ := json.Marshal(string(raw)) // text always encodes
	return quoted
}

// own is a lane of the connector's own topics.
func (u *sinkUnit) own(topic string) *deliver.Lane {
	return &deliver.Lane{Topic: topic, Stages: u.stages, Policy: u.policy}
}

// fed is a lane of a rule that targets the connector: the rule's steps come
// first, and its events fail as the rule says.
func (u *sinkUnit) fed(info *ruleInfo, topic string) *deliver.Lane {
	return &deliver.Lane{Topic: topic, Stages: append(info.stages(), u.stages...), Policy: info.policy}
}

// httpSink opens the http sink for a rule's target. The keys of the connection
// stand beneath the target's own.
func httpSink(plugins []connectors.Plugin, target *rules.HTTP, connection json.RawMessage) (*deliver.Sink, error) {
	_, _, kind, err := connectors.Lookup(plugins, "http-sink")
	if err != nil {
		return nil, err
	}
	config := map[string]any{}
	if target.Connection != "" {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(connection, &keys); err != nil {
			return nil, fmt.Errorf("connection %s: there is none: put it at /connections/%s", target.Connection, target.Connection)
		}
		for k, v := range keys {
			config[k] = v
		}
	}
	for k, v := range target.Config {
		if k != "connection" {
			config[k] = v
		}
	}
	if kind.Check != nil {
		if err := kind.Check(config); err != nil {
			return nil, err
		}
	}
	return &deliver.Sink{
		Open: func(ctx context.Context, env connectors.Env) (connectors.Sink, error) {
			return kind.Open(ctx, config, env)
		},
		Records: 100, Bytes: 1 << 20, Interval: 200 * time.Millisecond,
	}, nil
}
