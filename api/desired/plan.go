package desired

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/bus/table"
)

// Action says what a change does.
type Action string

// The actions.
const (
	Created   Action = "created"
	Updated   Action = "updated"
	Unchanged Action = "unchanged"
	Deleted   Action = "deleted"
)

// Plan is a set of changes that are not made yet.
type Plan struct {
	s *Store
	// View is what is wanted once the plan is committed; the maps are the plan's.
	View
	topics map[string]bus.Topic

	create  []bus.Topic // to be made or changed, in order
	writes  map[string][]event.Event
	order   []string // tables of writes, in order of first use
	forget  []string // groups, before the definitions are written
	stale   []string // topics to be dropped before the definitions are written
	drop    []drop   // topics to be dropped after
	forgets []string // groups to be forgotten after
}

type drop struct {
	topic string
	force bool
}

// Begin waits for the turn and reads what is wanted now. The caller closes it.
func (s *Store) Begin(ctx context.Context) (*Plan, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p, err := s.begin(ctx)
	if err != nil {
		<-s.turn
	}
	return p, err
}

func (s *Store) begin(ctx context.Context) (*Plan, error) {
	s.changed() // another node may have changed what Run has not heard of yet
	v, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	list, err := s.o.Client.Topics(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{s: s, writes: map[string][]event.Event{}, topics: make(map[string]bus.Topic, len(list))}
	for _, t := range list {
		p.topics[t.Name] = t
	}
	p.View = View{
		Connections: maps.Clone(v.Connections), Connectors: maps.Clone(v.Connectors),
		Rules: maps.Clone(v.Rules), Pipelines: maps.Clone(v.Pipelines),
	}
	return p, nil
}

// Close gives the turn back.
func (p *Plan) Close() { <-p.s.turn }

// put notes an entry of a table.
func (p *Plan) put(topic, key string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	p.write(topic, event.Event{Type: table.TypePut, Key: key, ContentType: "application/json", Data: data})
	return nil
}

// remove notes that an entry goes.
func (p *Plan) remove(topic, key string) {
	p.write(topic, event.Event{Type: table.TypeDelete, Key: key})
}

func (p *Plan) write(topic string, e event.Event) {
	e.ID, e.Source = rand.Text(), "/tables/"+topic
	if len(p.writes[topic]) == 0 {
		p.order = append(p.order, topic)
	}
	p.writes[topic] = append(p.writes[topic], e)
}

// Commit makes the changes. Where it fails in the middle, topics may have been
// made and nothing else, or all is done but for removing what nobody wants any
// more; doing the same again completes it.
func (p *Plan) Commit(ctx context.Context) error {
	client := p.s.o.Client
	for _, t := range p.create {
		if _, err := client.CreateTopic(ctx, t); err != nil {
			return err
		}
	}
	if err := p.clean(ctx, p.stale, p.forget); err != nil {
		return err
	}
	if len(p.order) > 0 {
		b := bus.Batch{ID: rand.Text()}
		for _, topic := range p.order {
			b.Writes = append(b.Writes, bus.Write{Topic: topic, Events: p.writes[topic]})
		}
		_, err := client.Append(ctx, b)
		for tries := 0; errors.Is(err, bus.ErrUnknown) && tries < 3; tries++ {
			_, err = client.Append(ctx, b) // the same batch id: stored once
		}
		if err != nil {
			return err
		}
		p.s.changed()
	}
	for _, d := range p.drop {
		if err := p.dropTopic(ctx, d); err != nil {
			if len(p.order) > 0 {
				err = fmt.Errorf("all else is done, but: %w", err)
			}
			return err
		}
	}
	return p.clean(ctx, nil, p.forgets)
}

// leaving is how long a drop waits for workers to leave what was deleted.
const leaving = 3 * time.Second

// dropTopic deletes a topic; one that is in use gets some time, as workers leave
// a rule or connector a moment after it was deleted.
func (p *Plan) dropTopic(ctx context.Context, d drop) error {
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.s.o.Client.DeleteTopic(ctx, d.topic, d.force)
		if errors.Is(err, bus.ErrNoTopic) {
			return nil
		}
		if !errors.Is(err, bus.ErrInUse) || time.Since(began) > leaving {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// clean drops topics and forgets groups that belong to something that is gone.
func (p *Plan) clean(ctx context.Context, topics, groups []string) error {
	for _, t := range topics {
		if err := p.s.o.Client.DeleteTopic(ctx, t, true); err != nil && !errors.Is(err, bus.ErrNoTopic) {
			return err
		}
	}
	for _, g := range groups {
		if err := p.s.o.Client.ForgetGroup(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// sortedKeys lists a map's keys in order.
func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// sameJSON reports whether two documents say the same, whatever their spacing
// and the order of their keys.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	ca, errA := json.Marshal(x)
	cb, errB := json.Marshal(y)
	return errA == nil && errB == nil && string(ca) == string(cb)
}
