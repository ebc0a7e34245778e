package workers

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"millrace/bus"
	"millrace/connectors"
	"millrace/rules"
	"millrace/workers/deliver"
	"millrace/workers/loop"
)

// kind of a unit.
type unitKind string

const (
	kindSource unitKind = "source"
	kindSink   unitKind = "sink"
	kindRule   unitKind = "rule"
	kindRouter unitKind = "router"
)

// unitSpec is one unit as it is wanted. Two with the same Key and Print are the
// same: the running one is left alone.
type unitSpec struct {
	Key      string // kind and name
	Kind     unitKind
	Owner    string // connector, rule or topic
	Name     string // in the status topic
	Group    string
	Slots    []string // in the order of loop.CompareSlots
	Tasks    int      // instances that share the slots; 0 = one a slot
	Paused   bool
	Restarts map[string]int
	Print    string
	run      loop.Run
}

// desired is all that a plan depends on.
type desired struct {
	connectors  map[string]ConnectorDef
	rules       map[string]*ruleInfo
	connections map[string]json.RawMessage
	topics      *topicView
	plugins     []connectors.Plugin
}

// plan is what is to be, computed from what is desired.
type plan struct {
	units  []unitSpec
	make   []bus.Topic                // delivery and redrive topics that are missing
	states map[string]ConnectorStatus // by name in the status topic
	routes map[string][]*routeRule    // by topic read, by rule name
}

// planner gathers a plan.
type planner struct {
	desired
	plan
}

// planOf is a pure function of what is desired.
func planOf(d desired, sets *routeSets) *plan {
	p := &planner{desired: d, plan: plan{states: map[string]ConnectorStatus{}, routes: map[string][]*routeRule{}}}
	feeds := map[string][]*feed{} // connector → rules that target it
	for _, name := range slices.Sorted(maps.Keys(d.rules)) {
		p.rule(d.rules[name], feeds)
	}
	for _, name := range slices.Sorted(maps.Keys(d.connectors)) {
		def := d.connectors[name]
		if err := p.connector(name, &def, feeds[name]); err != nil {
			p.states[name] = ConnectorStatus{State: StateFailed, Trace: err.Error()}
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(p.routes)) {
		t := p.topics.byName[topic]
		p.units = append(p.units, unitSpec{
			Key: "router " + topic, Kind: kindRouter, Owner: topic, Name: RouterGroup(topic), Group: RouterGroup(topic),
			Slots: slotsOf(t), Print: printOf(t.ID, t.Queues), run: (&routerDef{topic, sets}).run,
		})
	}
	slices.SortFunc(p.units, func(a, b unitSpec) int { return cmp.Compare(a.Key, b.Key) })
	return &p.plan
}

// feed is a rule's target that a sink connector serves.
type feed struct {
	info  *ruleInfo
	topic bus.Topic
}

// rule plans a rule: what its topics' routers do, and the unit that serves its
// topic and http targets.
func (p *planner) rule(info *ruleInfo, feeds map[string][]*feed) {
	name := RuleGroup(info.name)
	state := StateRunning
	if info.def.Paused {
		state = StatePaused
	}
	p.states[name] = ConnectorStatus{State: state}
	if info.err != nil {
		p.states[name] = ConnectorStatus{State: StateFailed, Trace: info.err.Error()}
		return
	}
	queues, durability := p.widest(info.rule.From)
	if queues == 0 {
		return // nothing to read yet
	}
	rr := &routeRule{info: info}
	unit := &deliver.Unit{Name: info.name, Lanes: map[string]*deliver.Lane{}}
	var own []bus.Topic
	var prints []any
	for i := range info.rule.To {
		target := &info.rule.To[i]
		rt := routeTarget{to: target.Topic, direct: target.Topic != "" && len(info.rule.Transforms) == 0, topic: target.Topic != ""}
		if rt.direct {
			rr.targets = append(rr.targets, rt)
			rr.held = rr.held || info.def.Paused
			continue
		}
		// Invariant 9: each target has a queue and a checkpoint of its own.
		t := p.deliveryTopic(TargetTopic(info.name, target.Name), queues, durability)
		rt.to = t.Name
		rr.targets = append(rr.targets, rt)
		if target.Connector != "" {
			feeds[target.Connector] = append(feeds[target.Connector], &feed{info, t})
			continue
		}
		lane := info.lane(t.Name, target.Topic)
		if target.HTTP != nil {
			conn := p.connections[target.HTTP.Connection]
			var err error
			if lane.Sink, err = httpSink(p.plugins, target.HTTP, conn); err != nil {
				p.states[name] = ConnectorStatus{State: StateFailed, Trace: fmt.Sprintf("target %s: %v", target.Name, err)}
				continue
			}
			prints = append(prints, conn)
		}
		unit.Lanes[t.Name] = lane
		own = append(own, t)
		prints = append(prints, t.ID)
	}
	for _, from := range info.rule.From {
		if _, ok := p.topics.byName[from]; ok {
			p.routes[from] = append(p.routes[from], rr)
		}
	}
	if len(own) == 0 {
		return
	}
	spec := unitSpec{
		Key: "rule " + info.name, Kind: kindRule, Owner: info.name, Name: name, Group: name,
		Paused: info.def.Paused, run: unit.Run,
	}
	spec.Slots = slotsOf(own...)
	spec.Print = printOf(info.def.Spec, spec.Paused, spec.Slots, prints)
	p.units = append(p.units, spec)
}

// connector plans one connector's unit, if it is to run.
func (p *planner) connector(name string, def *ConnectorDef, feeds []*feed) error {
	state := cmp.Or(def.State, StateRunning)
	p.states[name] = ConnectorStatus{State: state}
	config := make(map[string]any, len(def.Config))
	for k, v := range def.Config {
		config[k] = v
	}
	parsed, err := connectors.Parse(p.plugins, config)
	if err != nil {
		return err
	}
	if state == StateStopped || parsed.Source != nil && parsed.Source.Receiver != nil {
		return nil
	}
	spec := unitSpec{
		Owner: name, Name: name, Group: ConnectorGroup(name),
		Paused: state == StatePaused, Restarts: def.Restarts,
	}
	if parsed.Source != nil {
		spec.Kind, spec.Key = kindSource, "source "+name
		unit, err := sourceOf(name, parsed)
		if err != nil {
			return err
		}
		for i := range unit.tasks {
			spec.Slots = append(spec.Slots, loop.SlotName("task", i))
		}
		spec.run = unit.run
		spec.Print = printOf(def.Config, spec.Paused)
	} else {
		spec.Kind, spec.Key = kindSink, "sink "+name
		unit, err := sinkOf(name, parsed)
		if err != nil {
			return err
		}
		var read []bus.Topic
		var prints []any
		for _, t := range p.sinkTopics(&parsed.SinkConfig) {
			read = append(read, t)
			lane := unit.own(t.Name)
			lane.Starts = loop.Starts{At: def.Starts, Made: def.Created}
			unit.def.Lanes[t.Name] = lane
		}
		if len(parsed.SinkConfig.Topics) > 0 || parsed.SinkConfig.TopicsRegex != "" {
			t := p.deliveryTopic(RedriveTopic(name), 1, bus.Sync)
			read = append(read, t)
			unit.def.Lanes[t.Name] = unit.own(t.Name)
		}
		for _, f := range feeds {
			if f.info.def.Paused {
				continue // its events wait in the queue
			}
			read = append(read, f.topic)
			unit.def.Lanes[f.topic.Name] = unit.fed(f.info, f.topic.Name)
			prints = append(prints, f.info.def.Spec)
		}
		if len(read) == 0 {
			return nil
		}
		for _, t := range read {
			prints = append(prints, t.ID)
		}
		spec.Tasks = parsed.SinkConfig.TasksMax
		spec.Slots = slotsOf(read...)
		spec.run = unit.def.Run
		spec.Print = printOf(def.Config, spec.Paused, spec.Slots, prints)
	}
	p.units = append(p.units, spec)
	return nil
}

// sinkTopics are the topics that a sink reads and that exist, by name.
func (p *planner) sinkTopics(c *connectors.SinkConfig) (out []bus.Topic) {
	if c.TopicsRegex != "" {
		re, err := regexp.Compile("^(?:" + c.TopicsRegex + ")$")
		for _, t := range p.topics.list {
			if err == nil && !t.Internal() && re.MatchString(t.Name) {
				out = append(out, t)
			}
		}
		return out
	}
	for _, name := range c.Topics {
		if t, ok := p.topics.byName[name]; ok {
			out = append(out, t)
		}
	}
	return out
}

// widest is the largest number of queues among the topics that exist, 0 when
// none does, and the strictest durability.
func (p *planner) widest(topics []string) (queues int, d bus.Durability) {
	d = bus.Async
	for _, name := range topics {
		if t, ok := p.topics.byName[name]; ok {
			queues = max(queues, t.Queues)
			if t.Durability != bus.Async {
				d = bus.Sync
			}
		}
	}
	return queues, d
}

// deliveryTopic is a topic that feeds a delivery loop: as it is, or as it is to
// be made.
func (p *planner) deliveryTopic(name string, queues int, d bus.Durability) bus.Topic {
	if t, ok := p.topics.byName[name]; ok {
		return t
	}
	t := bus.Topic{Name: name, Queues: queues, Type: bus.Normal, Durability: d, Consumed: true}
	p.make = append(p.make, t)
	return t
}

// slotsOf names the queues of topics as slots, in order.
func slotsOf(topics ...bus.Topic) (slots []string) {
	for _, t := range topics {
		for q := range t.Queues {
			slots = append(slots, loop.SlotName(t.Name, q))
		}
	}
	slices.SortFunc(slots, loop.CompareSlots)
	return slices.Compact(slots)
}

// printOf is a fingerprint of values.
func printOf(values ...any) string {
	raw, err := json.Marshal(values)
	if err != nil { // of malformed raw JSON in a definition
		raw = fmt.Append(raw, values...)
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// ruleInfo is a rule as it was put, read and compiled once.
type ruleInfo struct {
	name    string
	def     RuleDef
	rule    *rules.Rule
	program *rules.Program
	policy  loop.Policy
	err     error
}
