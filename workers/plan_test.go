package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/bus"
	"millrace/connectors"
)

func noSource(context.Context, counterConfig, connectors.Env) (connectors.Source, error) {
	return nil, errors.New("planned only")
}

func noSink(context.Context, probeConfig, connectors.Env) (connectors.Sink, error) {
	return nil, errors.New("planned only")
}

func noHTTP(context.Context, httpConfig, connectors.Env) (connectors.Sink, error) {
	return nil, errors.New("planned only")
}

// base is a desired state that the cases of TestPlan change.
type base struct {
	connectors  map[string]ConnectorDef
	rules       map[string]RuleDef
	connections map[string]json.RawMessage
	topics      []bus.Topic
}

func (b *base) plan() *plan {
	read := map[string]*ruleInfo{}
	for name, def := range b.rules {
		read[name] = readRule(name, def, time.Now)
	}
	many := connectors.SourceOf(noSource)
	many.MaxTasks = 8
	return planOf(desired{
		connectors: b.connectors, rules: read, connections: b.connections, topics: viewOf(b.topics),
		plugins: []connectors.Plugin{
			{Name: "one", Source: connectors.SourceOf(noSource)},
			{Name: "many", Source: many},
			{Name: "probe", Sink: connectors.SinkOf(noSink)},
			{Name: "http", Sink: connectors.SinkOf(noHTTP)},
		},
	}, &routeSets{})
}

// start is two topics, a rule with a target of each kind, and connectors.
func start() *base {
	b := &base{
		connectors: map[string]ConnectorDef{
			"src":  {Config: map[string]string{"connector.class": "many-source", "tasks.max": "3"}},
			"sink": {Config: map[string]string{"connector.class": "probe-sink", "id": "x", "topics": "a"}},
			"fed":  {Config: map[string]string{"connector.class": "probe-sink", "id": "y"}},
		},
		rules: map[string]RuleDef{
			"r": {Spec: json.RawMessage(`{"from":["a","b"],"transforms":[{"remove":["data.x"]}],
				"to":[{"topic":"t"},{"connector":"fed"},{"http":{"url":"http://h","connection":"c"}}]}`)},
		},
		connections: map[string]json.RawMessage{"c": json.RawMessage(`{"token":"1"}`)},
	}
	for i, t := range []bus.Topic{
		{Name: "a", Queues: 1},
		{Name: "b", Queues: 2},
		{Name: "__rule.r.t", Queues: 2},
		{Name: "__rule.r.fed", Queues: 2},
		{Name: "__rule.r.http-3", Queues: 2},
		{Name: "__redrive.sink", Queues: 1},
	} {
		t.ID = uint64(i + 1)
		b.topics = append(b.topics, t)
	}
	return b
}

func describe(p *plan) []string {
	var out []string
	for _, u := range p.units {
		s := fmt.Sprintf("%s: %s %s", u.Key, u.Group, strings.Join(u.Slots, " "))
		if u.Tasks > 0 {
			s += fmt.Sprintf(" in %d", u.Tasks)
		}
		if u.Paused {
			s += " paused"
		}
		out = append(out, s)
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	got := describe(start().plan())
	want := []string{
		"router a: __router.a a/0",
		"router b: __router.b b/0 b/1",
		"rule r: rule-r __rule.r.http-3/0 __rule.r.http-3/1 __rule.r.t/0 __rule.r.t/1",
		"sink fed: connect-fed __rule.r.fed/0 __rule.r.fed/1 in 1",
		"sink sink: connect-sink a/0 __redrive.sink/0 in 1",
		"source src: connect-src task/0 task/1 task/2",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("plan\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPlanChanges says which units a change restarts ("~"), starts ("+") and
// stops ("-"); all others are left alone.
func TestPlanChanges(t *testing.T) {
	t.Parallel()
	def := func(b *base, name string, f func(*ConnectorDef)) {
		d := b.connectors[name]
		f(&d)
		b.connectors[name] = d
	}
	rule := func(b *base, spec string, paused bool) {
		d := b.rules["r"]
		d.Paused = paused
		if spec != "" {
			d.Spec = json.RawMessage(spec)
		}
		b.rules["r"] = d
	}
	for _, c := range []struct {
		name   string
		change func(*base)
		want   []string
		states map[string]string
		makes  []string
	}{
		{"nothing", func(*base) {}, nil, nil, nil},
		{"a source's config", func(b *base) {
			def(b, "src", func(d *ConnectorDef) {
				d.Config = map[string]string{"connector.class": "many-source", "tasks.max": "9"}
			})
		}, []string{"~source src"}, nil, nil},
		{"a source with one task at most", func(b *base) {
			def(b, "src", func(d *ConnectorDef) { d.Config = map[string]string{"connector.class": "one-source", "tasks.max": "9"} })
		}, []string{"~source src"}, nil, nil},
		{"a restart", func(b *base) { def(b, "src", func(d *ConnectorDef) { d.Restarts = map[string]int{"": 1} }) }, nil, nil, nil},
		{
			"pause a connector", func(b *base) { def(b, "sink", func(d *ConnectorDef) { d.State = StatePaused }) },
			[]string{"~sink sink"},
			map[string]string{"sink": StatePaused},
			nil,
		},
		{
			"stop a connector", func(b *base) { def(b, "sink", func(d *ConnectorDef) { d.State = StateStopped }) },
			[]string{"-sink sink"},
			map[string]string{"sink": StateStopped},
			nil,
		},
		{"delete a connector", func(b *base) { delete(b.connectors, "fed") }, []string{"-sink fed"}, nil, nil},
		{
			"a bad connector", func(b *base) {
				def(b, "src", func(d *ConnectorDef) { d.Config = map[string]string{"connector.class": "no-source"} })
			},
			[]string{"-source src"},
			map[string]string{"src": StateFailed},
			nil,
		},
		{"pause a rule", func(b *base) { rule(b, "", true) }, []string{"-sink fed", "~rule r"}, map[string]string{"rule-r": StatePaused}, nil},
		{
			"a bad rule", func(b *base) { rule(b, `{"from":[]}`, false) },
			[]string{"-router a", "-router b", "-rule r", "-sink fed"},
			map[string]string{"rule-r": StateFailed},
			nil,
		},
		{"a rule's steps", func(b *base) {
			rule(b, strings.Replace(string(b.rules["r"].Spec), "data.x", "data.y", 1), false)
		}, []string{"~rule r", "~sink fed"}, nil, nil},
		{
			"a rule that links directly", func(b *base) { rule(b, `{"from":["a"],"to":[{"topic":"t"}]}`, false) },
			[]string{"-router b", "-rule r", "-sink fed"},
			nil, nil,
		},
		{
			"a rule of topics that do not exist", func(b *base) { rule(b, `{"from":["z"],"to":[{"topic":"t"}]}`, false) },
			[]string{"-router a", "-router b", "-rule r", "-sink fed"},
			map[string]string{"rule-r": StateRunning},
			nil,
		},
		{"another target", func(b *base) {
			rule(b, `{"from":["a","b"],"transforms":[{"remove":["data.x"]}],"to":[{"topic":"u"},{"connector":"fed"}]}`, false)
		}, []string{"~rule r", "~sink fed"}, nil, []string{"__rule.r.u"}},
		{"a connection", func(b *base) { b.connections["c"] = json.RawMessage(`{"token":"2"}`) }, []string{"~rule r"}, nil, nil},
		{"a connection that is gone", func(b *base) { delete(b.connections, "c") }, []string{"~rule r"}, map[string]string{"rule-r": StateFailed}, nil},
		{"a topic made again", func(b *base) { b.topics[0].ID = 99 }, []string{"~router a", "~sink sink"}, nil, nil},
		{"a topic that is gone", func(b *base) { b.topics = b.topics[1:] }, []string{"-router a", "~sink sink"}, nil, nil},
		{"a delivery topic that is gone", func(b *base) { b.topics = append(b.topics[:3:3], b.topics[4:]...) }, []string{"~sink fed"}, nil, []string{"__rule.r.fed"}},
		{"a rule's topics elsewhere", func(b *base) { b.topics = append(b.topics, bus.Topic{Name: "other", ID: 50, Queues: 9}) }, nil, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before, b := start().plan(), start()
			c.change(b)
			after := b.plan()
			prints := map[string]string{}
			for _, u := range before.units {
				prints[u.Key] = u.Print
			}
			var got []string
			for _, u := range after.units {
				if old, ok := prints[u.Key]; !ok {
					got = append(got, "+"+u.Key)
				} else if old != u.Print {
					got = append(got, "~"+u.Key)
				}
				delete(prints, u.Key)
			}
			for key := range prints {
				got = append(got, "-"+key)
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("changed %q, want %q", got, c.want)
			}
			for name, want := range c.states {
				if s := after.states[name]; s.State != want || want == StateFailed && s.Trace == "" {
					t.Errorf("state of %s: %+v, want %s", name, s, want)
				}
			}
			var makes []string
			for _, m := range after.make {
				if !m.Consumed {
					t.Errorf("%s is not consumed", m.Name)
				}
				makes = append(makes, m.Name)
			}
			if !slices.Equal(makes, c.makes) {
				t.Errorf("makes %q, want %q", makes, c.makes)
			}
		})
	}
}

func TestRuleDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spec, want string }{
		{``, ` dead=__dead.r tries=3 10s..10s +10s within 0s`},
		{`,"onError":"park-key","deadLetter":{"topic":"d"}`, `park-key dead=d tries=3 10s..10s +10s within 0s`},
		{`,"retry":{"strategy":"exponential-decay"}`, ` dead=__dead.r tries=176 1s..8m32s +0s within 24h0m0s`},
		{`,"retry":{"strategy":"custom","attempts":7,"delay":"2s","maxDelay":"5s"}`, ` dead=__dead.r tries=7 2s..5s +0s within 0s`},
	} {
		info := readRule("r", RuleDef{Spec: json.RawMessage(`{"from":["a"],"to":[{"topic":"t"}]` + c.spec + `}`)}, time.Now)
		if info.err != nil {
			t.Fatal(info.err)
		}
		s := info.policy.Retry
		got := fmt.Sprintf("%s dead=%s tries=%d %s..%s +%s within %s", info.policy.OnError, info.policy.Dead, s.Tries, s.Delay, s.Max, s.Spread, s.Within)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.spec, got, c.want)
		}
	}
}
