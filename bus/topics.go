package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"millrace/bus/event"
	"millrace/bus/frame"
	"millrace/bus/index"
)

// Ids of the topics that exist without a definition of their own: a log cannot
// be read without them.
const (
	idTopics = 1 + iota
	idPositions
	idOffsets
	idCluster
	idState
	idFirst = 100 // all others begin here
)

// lastIDKey is the record of TopicTopics that holds the highest id ever given.
const lastIDKey = "#last-id"

const maxQueues = 1024

// topicState is a topic and what choosing a queue needs.
type topicState struct {
	Topic
	turn *atomic.Uint32 // of keyless writes
}

// own reports whether no link may refer to the topic's records, so that they
// go as soon as they are dead: the bus's own tables and delivery queues, whose
// links are taken over by their origin.
func (t *topicState) own() bool { return t.Consumed || t.ID < idFirst }

// topicSet is an immutable snapshot of the topics.
type topicSet struct {
	byName map[string]*topicState
	byID   map[uint64]*topicState
	lastID uint64
}

// with returns a copy of the set with t in place of the topic of that name.
func (s *topicSet) with(t Topic) *topicSet {
	n := s.without(t.Name)
	st := &topicState{Topic: t, turn: new(atomic.Uint32)}
	if old := s.byID[t.ID]; old != nil {
		st.turn = old.turn
	}
	n.byName[t.Name], n.byID[t.ID] = st, st
	n.lastID = max(n.lastID, t.ID)
	return n
}

func (s *topicSet) without(name string) *topicSet {
	n := &topicSet{byName: maps.Clone(s.byName), byID: maps.Clone(s.byID), lastID: s.lastID}
	if old := n.byName[name]; old != nil {
		delete(n.byID, old.ID)
		delete(n.byName, name)
	}
	return n
}

func (b *Bus) loadTopics() error {
	set := &topicSet{byName: map[string]*topicState{}, byID: map[uint64]*topicState{}, lastID: idFirst - 1}
	for id, name := range map[uint64]string{
		idTopics: TopicTopics, idPositions: TopicPositions, idOffsets: TopicOffsets, idCluster: TopicCluster, idState: TopicState,
	} {
		set = set.with(Topic{Name: name, ID: id, Queues: 1, Type: Compacted, Durability: Sync})
	}
	b.topics.Store(set)
	err := b.eachKeyed(TopicTopics, func(e *event.Event) error {
		if e.Key == lastIDKey {
			return unmarshalOwn(TopicTopics, e, &set.lastID)
		}
		var t Topic
		if err := unmarshalOwn(TopicTopics, e, &t); err != nil {
			return err
		}
		last := set.lastID
		set = set.with(t)
		set.lastID = max(set.lastID, last)
		return nil
	})
	b.topics.Store(set)
	return err
}

func noTopic(name string) error {
	return &Error{Kind: ErrNoTopic, Thing: "topic " + name, Msg: "does not exist: create it with PUT /topics/" + name}
}

// Topics implements Client.
func (b *Bus) Topics(context.Context) ([]Topic, error) {
	set := b.topics.Load()
	out := make([]Topic, 0, len(set.byName))
	for _, name := range slices.Sorted(maps.Keys(set.byName)) {
		out = append(out, set.byName[name].Topic)
	}
	return out, nil
}

// Topic implements Client.
func (b *Bus) Topic(_ context.Context, name string) (Topic, error) {
	if t := b.topics.Load().byName[name]; t != nil {
		return t.Topic, nil
	}
	return Topic{}, noTopic(name)
}

// CreateTopic implements Client.
func (b *Bus) CreateTopic(ctx context.Context, t Topic) (Topic, error) {
	b.topicMu.Lock()
	defer b.topicMu.Unlock()
	set := b.topics.Load()
	old := set.byName[t.Name]
	if err := checkTopic(&t, old); err != nil {
		return Topic{}, err
	}
	if old != nil {
		if t.Durability == old.Durability && t.Retention == old.Retention {
			return old.Topic, nil
		}
		changed := old.Topic
		changed.Durability, changed.Retention = t.Durability, t.Retention
		t = changed
	} else {
		t.ID = set.lastID + 1
		t.Created = b.o.Now().UTC()
	}
	next := set.with(t)
	if err := b.putTopics(ctx, next, t.Name, &t, nil); err != nil {
		return Topic{}, err
	}
	b.watch.WakeAll()
	return t, nil
}

// checkTopic validates t, fills in its defaults and compares it with the one
// that is there.
func checkTopic(t *Topic, old *topicState) error {
	bad := func(kind error, field, format string, args ...any) error {
		return &Error{Kind: kind, Thing: "topic " + t.Name, Field: field, Msg: fmt.Sprintf(format, args...)}
	}
	if !validTopicName(t.Name) {
		return bad(ErrInvalid, "name", "use 1 to 249 letters, digits, '.', '_' and '-', and not '.' or '..'")
	}
	if old != nil {
		t.Queues = defaultTo(t.Queues, old.Queues)
		t.Type = defaultTo(t.Type, old.Type)
		t.Durability = defaultTo(t.Durability, old.Durability)
		t.Retention = defaultTo(t.Retention, old.Retention)
	}
	t.Queues = defaultTo(t.Queues, 1)
	t.Type = defaultTo(t.Type, Normal)
	t.Durability = defaultTo(t.Durability, Sync)
	switch {
	case old == nil:
	case t.Queues != old.Queues:
		return bad(ErrConflict, "queues", "exists with %d queues, which cannot be changed: make a new topic", old.Queues)
	case t.Type != old.Type:
		return bad(ErrConflict, "type", "exists as %s, which cannot be changed: make a new topic", old.Type)
	}
	switch t.Type {
	case Normal, Compacted:
	case FIFO, Delay, Transaction, Lite:
		return bad(ErrUnsupported, "type", "topics of type %s do not exist yet: use normal or compacted", t.Type)
	default:
		return bad(ErrInvalid, "type", "%q is not a type: use normal or compacted", t.Type)
	}
	switch {
	case t.Durability != Sync && t.Durability != Async:
		return bad(ErrInvalid, "durability", "%q is not a durability: use sync or async", t.Durability)
	case t.Queues < 1 || t.Queues > maxQueues:
		return bad(ErrInvalid, "queues", "%d is not from 1 to %d", t.Queues, maxQueues)
	case t.Retention.Age < 0:
		return bad(ErrInvalid, "retention.age", "must not be negative; 0 does not bound")
	case t.Retention.Bytes < 0:
		return bad(ErrInvalid, "retention.bytes", "must not be negative; 0 does not bound")
	case t.Type == Compacted && t.Retention != Retention{}:
		return bad(ErrInvalid, "retention", "a compacted topic keeps the latest record of each key: leave retention out")
	}
	return nil
}

func validTopicName(name string) bool {
	if name == "" || len(name) > 249 || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		c := name[i]
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alphanumeric && strings.IndexByte("._-", c) < 0 {
			return false
		}
	}
	return true
}

// putTopics stores a topic's definition, or its tombstone (t nil) with drop.
// next comes into force when it is durable, before anybody is told.
func (b *Bus) putTopics(ctx context.Context, next *topicSet, name string, t *Topic, drop *Topic) error {
	enc := b.encoder(&pending{topics: next})
	var def []byte
	if t != nil {
		var err error
		if def, err = json.Marshal(t); err != nil {
			return fmt.Errorf("topic %s: %w", name, err)
		}
	}
	last, err := json.Marshal(next.lastID)
	if err != nil {
		return fmt.Errorf("topic %s: %w", name, err)
	}
	err = errors.Join(
		enc.keyed(TopicTopics, "millrace.topic", "/topics", name, def),
		enc.keyed(TopicTopics, "millrace.topic", "/topics", lastIDKey, last))
	if err != nil {
		return err
	}
	if drop != nil {
		enc.open(frame.Run{Queue: index.QueueID{Topic: drop.ID}, Kind: frame.Drop})
	}
	p, err := enc.finish("")
	if err != nil {
		return err
	}
	// Once handed over it must be seen through: memory has to follow the log.
	_, err = b.submit(context.WithoutCancel(ctx), p)
	return err
}

// DeleteTopic implements Client.
func (b *Bus) DeleteTopic(ctx context.Context, name string, force bool) error {
	b.topicMu.Lock()
	defer b.topicMu.Unlock()
	set := b.topics.Load()
	t := set.byName[name]
	if t == nil {
		return noTopic(name)
	}
	if t.ID < idFirst {
		return &Error{Kind: ErrInvalid, Thing: "topic " + name, Msg: "belongs to Millrace itself and cannot be deleted"}
	}
	if !force {
		if err := b.topicInUse(set, t); err != nil {
			return err
		}
	}
	// New appends are refused from here on; the committer refuses those on the way.
	next := set.without(name)
	b.topics.Store(next)
	if err := b.putTopics(ctx, next, name, nil, &t.Topic); err != nil {
		b.topics.Store(set)
		return err
	}
	b.watch.WakeAll()
	return nil
}

func (b *Bus) topicInUse(set *topicSet, t *topicState) error {
	used := func(by string) error {
		return &Error{Kind: ErrInUse, Thing: "topic " + t.Name, Msg: "is in use by " + by + ": remove that first, or delete with force"}
	}
	by, pinned, err := b.index.PinnedBy(t.ID)
	if err != nil {
		return err
	}
	if pinned {
		name := fmt.Sprintf("topic id %d", by)
		if l := set.byID[by]; l != nil {
			name = "topic " + l.Name
		}
		return used("links in " + name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range b.groups.Groups() {
		info := b.groups.Describe(g)
		for _, s := range info.Slots {
			if topic, _, ok := splitSlot(s.Name); ok && topic == t.Name && len(info.Members) > 0 {
				return used("group " + g)
			}
		}
	}
	return nil
}
