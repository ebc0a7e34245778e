package letters

import (
	"context"
	"encoding/json"
	"strings"

	"millrace/bus"
	"millrace/workers/loop"
)

// Parks are the parked keys of a task's slots: the first failure of a key parks
// it, all its later events become dead letters, and it flows again once the last
// of them was redriven and delivered. Invariant 4. They are state in the batch
// that stores the letters.
type Parks struct {
	client bus.Client
	space  string
	own    map[string]uint64           // slots that only this task parks → their topic's incarnation
	loaded map[string]map[string]*Park // slot → key
	fresh  []bus.Keyed
}

// Park is one parked key. Round is the redrive in which it failed last: what
// follows in the same round follows it back.
type Park struct {
	Round string `json:"round"`
	Topic uint64 `json:"topic,omitempty"` // incarnation of the slot's topic
	saved bool
}

// NewParks makes the parks of a group; own are the slots of the task, with their
// topic's incarnation: what was parked in an earlier one is forgotten.
func NewParks(client bus.Client, group string, own map[string]uint64) *Parks {
	return &Parks{client: client, space: "park/" + group, own: own, loaded: map[string]map[string]*Park{}}
}

// Get returns a parked key of a slot, or nil.
func (p *Parks) Get(ctx context.Context, slot, key string) (*Park, error) {
	m, err := p.load(ctx, slot)
	if err != nil {
		return nil, err
	}
	known := m[key]
	_, own := p.own[slot]
	if known != nil && !known.saved || known == nil && own {
		return known, nil
	}
	// Another task may have seen its last letter delivered.
	full := p.space + "/" + slot + "/" + key
	recs, err := p.client.Scan(ctx, bus.TopicState, full, "", 1)
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 || recs[0].Key != full {
		delete(m, key)
		return nil, nil
	}
	m[key] = parkFrom(recs[0].Data)
	return m[key], nil
}

func (p *Parks) load(ctx context.Context, slot string) (map[string]*Park, error) {
	if m := p.loaded[slot]; m != nil {
		return m, nil
	}
	m := map[string]*Park{}
	prefix := p.space + "/" + slot + "/"
	for rec, err := range loop.Scan(ctx, p.client, bus.TopicState, prefix) {
		if err != nil {
			return nil, err
		}
		k := parkFrom(rec.Data)
		if id, own := p.own[slot]; !own || k.Topic == id {
			m[strings.TrimPrefix(rec.Key, prefix)] = k
		}
	}
	p.loaded[slot] = m
	return m, nil
}

func parkFrom(data []byte) *Park {
	k := &Park{saved: true}
	if json.Unmarshal(data, k) != nil {
		k.Round = "" // parked all the same
	}
	return k
}

// Set parks a key with the next batch. The slot was asked for with Get before.
func (p *Parks) Set(slot, key, round string) {
	k := &Park{Round: round, Topic: p.own[slot]}
	if old := p.loaded[slot][key]; old != nil && k.Topic == 0 {
		k.Topic = old.Topic
	}
	data, _ := json.Marshal(k) // always encodes
	p.loaded[slot][key] = k
	p.fresh = append(p.fresh, bus.Keyed{Space: p.space, Key: slot + "/" + key, Value: data})
}

// Clear lets a key flow again with the next batch.
func (p *Parks) Clear(slot, key string) {
	delete(p.loaded[slot], key)
	p.fresh = append(p.fresh, bus.Keyed{Space: p.space, Key: slot + "/" + key})
}

// Fresh is what was set and cleared since the last Stored, for a batch.
func (p *Parks) Fresh() []bus.Keyed { return p.fresh }

// Stored says that all that was set or cleared is durable.
func (p *Parks) Stored() {
	for _, s := range p.fresh {
		for slot, m := range p.loaded {
			if key, ok := strings.CutPrefix(s.Key, slot+"/"); ok && m[key] != nil {
				m[key].saved = true
			}
		}
	}
	p.fresh = p.fresh[:0]
}
