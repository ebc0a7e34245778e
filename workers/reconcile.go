package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/bus"
	"millrace/bus/table"
	"millrace/rules"
	"millrace/workers/loop"
)

// tables are the desired state, as this worker sees it.
type tables struct {
	connectors  *table.Table[ConnectorDef]
	rules       *table.Table[RuleDef]
	connections *table.Table[json.RawMessage]

	read map[string]*ruleInfo // rules as last read, by name
	said map[string]string    // statuses of connectors and rules as last told
}

func (r *Runtime) openTables(ctx context.Context) (*tables, error) {
	o := table.Options{Logger: r.o.Logger}
	t := &tables{read: map[string]*ruleInfo{}}
	_, err := loop.EnsureTopic(ctx, r.o.Client, bus.Topic{Name: bus.TopicStatus, Type: bus.Compacted})
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", bus.TopicStatus, err)
	}
	if t.connectors, err = table.Open[ConnectorDef](ctx, r.o.Client, bus.TopicConfig, o); err != nil {
		return nil, err
	}
	if t.rules, err = table.Open[RuleDef](ctx, r.o.Client, TopicRules, o); err != nil {
		return nil, err
	}
	if t.connections, err = table.Open[json.RawMessage](ctx, r.o.Client, TopicConnections, o); err != nil {
		return nil, err
	}
	return t, nil
}

// watches are what must run to see every change; changed gets a token for each.
func (t *tables) watches(r *Runtime, changed chan<- struct{}) []func(context.Context) error {
	return []func(context.Context) error{
		t.connectors.Run, t.rules.Run, t.connections.Run,
		follow(t.connectors.Changed, changed), follow(t.rules.Changed, changed), follow(t.connections.Changed, changed),
		r.versions(bus.TopicTopics, func() { notify(changed, 0) }),
		r.versions(bus.TopicCluster, func() { r.routes.epochs.Add(1) }),
	}
}

func follow(next func() <-chan struct{}, changed chan<- struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			c := next()
			notify(changed, 0)
			select {
			case <-c:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// versions calls f at every change of a compacted topic, and once more a little
// later: what a broker answers may follow its own records by a moment.
func (r *Runtime) versions(topic string, f func()) func(context.Context) error {
	return func(ctx context.Context) error {
		seen := int64(-1)
		for {
			v, err := r.o.Client.Changed(ctx, topic, seen)
			if err != nil {
				return fmt.Errorf("changes of %s: %w", topic, err)
			}
			seen = v
			f()
			time.AfterFunc(100*time.Millisecond, f)
		}
	}
}

// reconcile computes what is to be and makes it so.
func (r *Runtime) reconcile(ctx context.Context, t *tables) error {
	d := desired{
		connectors: t.connectors.Snapshot(), rules: t.readRules(r),
		connections: t.connections.Snapshot(), plugins: r.o.Plugins,
	}
	for range 3 {
		list, err := r.o.Client.Topics(ctx)
		if err != nil {
			return fmt.Errorf("topics: %w", err)
		}
		d.topics = viewOf(list)
		r.topics.Store(d.topics)
		p := planOf(d, &r.routes)
		if len(p.make) == 0 {
			r.routes.set(p.routes)
			r.apply(ctx, p.units)
			return t.tell(ctx, r, p)
		}
		for _, topic := range p.make {
			if _, err := loop.EnsureTopic(ctx, r.o.Client, topic); err != nil {
				return fmt.Errorf("topic %s: %w", topic.Name, err)
			}
		}
	}
	return errors.New("topics that were just made are not listed")
}

// readRules reads the rules that changed since the last time.
func (t *tables) readRules(r *Runtime) map[string]*ruleInfo {
	read := map[string]*ruleInfo{}
	for name, def := range t.rules.Snapshot() {
		old := t.read[name]
		if old != nil && string(old.def.Spec) == string(def.Spec) {
			same := *old
			same.def = def
			read[name] = &same
			continue
		}
		read[name] = readRule(name, def, r.o.Now)
	}
	t.read = read
	return read
}

// tell stores the states of connectors and rules that changed, and deletes those
// of what is gone.
func (t *tables) tell(ctx context.Context, r *Runtime, p *plan) error {
	if t.said == nil { // what stands there may be of an earlier life
		if err := r.dropOrphans(ctx, p); err != nil {
			return err
		}
		t.said = map[string]string{}
	}
	for name, s := range p.states {
		s.WorkerID = r.o.WorkerID
		if said := s.State + " " + s.Trace; t.said[name] != said {
			t.said[name] = said
			if s.State == StateFailed {
				r.o.Logger.Warn("definition cannot run", "name", name, "error", s.Trace)
			}
			r.status.set(StatusKey(name), s, true)
		}
	}
	for name := range t.said {
		if _, ok := p.states[name]; !ok {
			delete(t.said, name)
			r.status.set(StatusKey(name), nil, true)
		}
	}
	return nil
}

// dropOrphans deletes the statuses of what is not desired any more.
func (r *Runtime) dropOrphans(ctx context.Context, p *plan) error {
	known := map[string]bool{}
	for name := range p.states {
		known[StatusKey(name)] = true
	}
	for _, u := range p.units {
		for i := range u.Slots {
			known[TaskStatusKey(u.Name, i)] = true
		}
	}
	for rec, err := range loop.Scan(ctx, r.o.Client, bus.TopicStatus, "status-") {
		if err != nil {
			return fmt.Errorf("statuses: %w", err)
		}
		if !known[rec.Key] {
			r.status.set(rec.Key, nil, false)
		}
	}
	return nil
}

// clearStale deletes the statuses that other owners left behind under the ids of
// slots that are now served by a task with another id.
func (r *Runtime) clearStale(ctx context.Context, u *unit, owned []bus.Slot) {
	prefix := strings.TrimSuffix(TaskStatusKey(u.spec.Name, 0), "0")
	mine := map[int]bool{} // slot number → a task has that id
	for _, s := range owned {
		if i, ok := slices.BinarySearchFunc(u.spec.Slots, s.Name, loop.CompareSlots); ok {
			mine[i] = false
		}
	}
	u.mu.Lock()
	for _, t := range u.tasks {
		mine[t.id] = true
	}
	u.mu.Unlock()
	for rec, err := range loop.Scan(ctx, r.o.Client, bus.TopicStatus, prefix) {
		if err != nil {
			r.o.Logger.Info("old statuses stay", "unit", u.spec.Key, "error", err)
			return
		}
		id, err := strconv.Atoi(strings.TrimPrefix(rec.Key, prefix))
		if err != nil {
			continue // of another connector whose name begins alike
		}
		if running, ok := mine[id]; ok && !running || id >= len(u.spec.Slots) {
			r.status.set(rec.Key, nil, false)
		}
	}
}

// routeSets holds the rules of every topic for its routers.
type routeSets struct {
	epochs atomic.Int64 // rises when slots' epochs may have changed

	mu      sync.Mutex
	byTopic map[string]*routeSet
}

func (s *routeSets) of(topic string) (*routeSet, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byTopic[topic], s.epochs.Load()
}

// set takes the rules as planned; a topic whose rules did not change keeps its
// set, so that its routers do not stop for it.
func (s *routeSets) set(routes map[string][]*routeRule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[string]*routeSet, len(routes))
	for topic, list := range routes {
		n := &routeSet{rules: list}
		prints := make([]any, 0, 4*len(list))
		programs := make([]*rules.Program, 0, len(list))
		for _, r := range list {
			prints = append(prints, r.info.name, r.info.def.Spec, r.info.def.Created, r.held)
			programs = append(programs, r.info.program)
		}
		n.print = printOf(prints...)
		if old := s.byTopic[topic]; old != nil && old.print == n.print {
			next[topic] = old
			continue
		}
		n.set = rules.NewSet(programs)
		next[topic] = n
	}
	s.byTopic = next
}

// forget deletes the statuses of a unit's tasks, unless it is wanted again.
func (r *Runtime) forget(u *unit) {
	r.mu.Lock()
	again := r.units[u.spec.Key] != nil
	r.mu.Unlock()
	if again {
		return
	}
	for i := range u.spec.Slots {
		r.status.set(TaskStatusKey(u.spec.Name, i), nil, true)
	}
}

// runningKeys lists the units that run, for tests and logs.
func (r *Runtime) runningKeys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.units))
}
