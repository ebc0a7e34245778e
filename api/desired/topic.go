package desired

import (
	"net/http"
	"strings"

	"millrace/api/rest"
	"millrace/bus"
)

// TopicSpec is the body of PUT /topics/{topic} and the spec of a Topic resource.
// Zero fields take the defaults of bus.Topic.
type TopicSpec struct {
	Queues     int            `json:"queues"`
	Type       bus.TopicType  `json:"type"`
	Durability bus.Durability `json:"durability"`
	Retention  *RetentionSpec `json:"retention"`
}

// RetentionSpec bounds what a topic keeps; zero fields do not bound.
type RetentionSpec struct {
	Age   bus.Duration `json:"age"`
	Bytes int64        `json:"bytes"`
}

const maxQueues = 1024

// topic validates a spec, each fault with its field, and fills in the defaults.
func (t *TopicSpec) topic(name string) (bus.Topic, error) {
	top := bus.Topic{Name: name, Queues: max(t.Queues, 1), Type: t.Type, Durability: t.Durability}
	if t.Queues < 0 || t.Queues > maxQueues {
		return top, rest.Bad("queues", "%d is not from 1 to %d", t.Queues, maxQueues)
	}
	if t.Type == "" {
		top.Type = bus.Normal
	}
	switch top.Type {
	case bus.Normal, bus.Compacted:
	case bus.FIFO, bus.Delay, bus.Transaction, bus.Lite:
		return top, rest.Bad("type", "topics of type %s do not exist yet: use normal or compacted", t.Type)
	default:
		return top, rest.Bad("type", "%q is not a type of topic: use normal or compacted", t.Type)
	}
	if t.Durability == "" {
		top.Durability = bus.Sync
	}
	if top.Durability != bus.Sync && top.Durability != bus.Async {
		return top, rest.Bad("durability", "%q is not sync or async", t.Durability)
	}
	if t.Retention == nil {
		return top, nil
	}
	top.Retention = bus.Retention{Age: t.Retention.Age, Bytes: t.Retention.Bytes}
	if t.Retention.Bytes < 0 {
		return top, rest.Bad("retention.bytes", "%d is negative: 0 means no bound", t.Retention.Bytes)
	}
	if top.Type == bus.Compacted && top.Retention != (bus.Retention{}) {
		return top, rest.Bad("retention", "a compacted topic keeps the latest event of each key: leave retention out")
	}
	return top, nil
}

// checkName refuses names that could not stand in a path, a file's name or a
// group's. kind is such as "topic".
func checkName(field, kind, name string, most int) error {
	if name == "" || len(name) > most || name == "." || name == ".." {
		return rest.Bad(field, "%q is no name for a %s: use 1 to %d letters, digits, '.', '_' and '-'", name, kind, most)
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return rest.Bad(field, "%q has %q in it: a %s's name is of letters, digits, '.', '_' and '-'", name, c, kind)
		}
	}
	return nil
}

// CheckTopic refuses what is no name for a user's topic.
func CheckTopic(field, name string) error {
	if bus.InternalTopic(name) {
		return rest.Fail(http.StatusForbidden, field, "%s belongs to Millrace itself: choose another name, not beginning with \"__\"", name)
	}
	return checkName(field, "topic", name, 200)
}

// PutTopic plans to make a topic, or to change its durability or retention.
func (p *Plan) PutTopic(name string, spec TopicSpec) (Action, error) {
	if err := CheckTopic("name", name); err != nil {
		return "", err
	}
	have, ok := p.topics[name]
	if ok { // what is left out stays
		if spec.Queues == 0 {
			spec.Queues = have.Queues
		}
		if spec.Type == "" {
			spec.Type = have.Type
		}
		if spec.Durability == "" {
			spec.Durability = have.Durability
		}
	}
	want, err := spec.topic(name)
	if err != nil {
		return "", err
	}
	if ok && spec.Retention == nil {
		want.Retention = have.Retention
	}
	switch {
	case ok && want.Retention == bus.Retention{} && want.Retention != have.Retention:
		return "", rest.Bad("retention", "cannot be taken away from topic %s once it is set: set a long age", name)
	case ok && have.Queues != want.Queues:
		return "", rest.Fail(http.StatusConflict, "queues", "topic %s has %d queues and keeps them, as the order per key depends on it: make another topic", name, have.Queues)
	case ok && have.Type != want.Type:
		return "", rest.Fail(http.StatusConflict, "type", "topic %s is %s and stays so: make another topic", name, have.Type)
	case ok && have.Durability == want.Durability && have.Retention == want.Retention:
		return Unchanged, nil
	}
	p.topics[name] = want
	p.create = append(p.create, want)
	if ok {
		return Updated, nil
	}
	return Created, nil
}

// needTopic plans to make a topic with defaults where it is missing.
func (p *Plan) needTopic(name string) {
	if _, ok := p.topics[name]; ok || bus.InternalTopic(name) {
		return
	}
	t := bus.Topic{Name: name, Queues: 1, Type: bus.Normal, Durability: bus.Sync}
	p.topics[name] = t
	p.create = append(p.create, t)
}

// DeleteTopic plans to remove a topic. Unless force, one that rules or connectors
// use is a conflict that names them; live links are the bus's to see.
func (p *Plan) DeleteTopic(name string, force bool) error {
	if bus.InternalTopic(name) {
		return CheckTopic("name", name)
	}
	if _, ok := p.topics[name]; !ok {
		return NoTopic(name)
	}
	if users := p.topicUsers(name); len(users) > 0 && !force {
		return rest.Of(http.StatusConflict, "topic", "topic %s is used by %s: delete those first, or add ?force=true", name, strings.Join(users, ", "))
	}
	delete(p.topics, name)
	p.drop = append(p.drop, drop{topic: name, force: force})
	return nil
}

// NoTopic is the 404 that says how to make a topic.
func NoTopic(name string) error {
	return rest.Of(http.StatusNotFound, "topic", "no such topic: %s: create it with PUT /topics/%s", name, name)
}

// topicUsers names the rules and connectors that read or write a topic.
func (p *Plan) topicUsers(name string) []string {
	var users []string
	for _, r := range sortedKeys(p.Rules) {
		if refs := refsOf(p.Rules[r].Spec); refs.uses(name) {
			users = append(users, "rule "+r)
		}
	}
	for _, c := range sortedKeys(p.Connectors) {
		if p.s.connectorUses(p.Connectors[c].Config, name) {
			users = append(users, "connector "+c)
		}
	}
	return users
}
