package loop

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"millrace/bus"
	"millrace/connectors"
)

// State is a component's store. What it puts waits until the loop takes it into
// a batch; the component itself sees it at once.
type State struct {
	client bus.Client
	space  string

	mu    sync.Mutex
	fresh map[string][]byte   // put since the last take; nil = deleted
	taken []map[string][]byte // in batches not stored yet, oldest first
}

var _ connectors.State = (*State)(nil)

// NewState makes a store over the entries of one space.
func NewState(client bus.Client, space string) *State {
	return &State{client: client, space: space, fresh: map[string][]byte{}}
}

// Get returns the latest value of a key.
func (s *State) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if v, known := s.pending(key); known {
		return v, v != nil, nil
	}
	full := s.space + "/" + key
	recs, err := s.client.Scan(ctx, bus.TopicState, full, "", 1)
	if err != nil || len(recs) == 0 || recs[0].Key != full {
		return nil, false, err
	}
	return recs[0].Data, true, nil
}

func (s *State) pending(key string) (v []byte, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, known = s.fresh[key]; known {
		return v, true
	}
	for _, m := range slices.Backward(s.taken) {
		if v, known = m[key]; known {
			return v, true
		}
	}
	return nil, false
}

// Put sets a key; the value joins the next batch.
func (s *State) Put(key string, value []byte) {
	if value == nil {
		value = []byte{}
	}
	s.mu.Lock()
	s.fresh[key] = slices.Clone(value)
	s.mu.Unlock()
}

// Delete removes a key with the next batch.
func (s *State) Delete(key string) {
	s.mu.Lock()
	s.fresh[key] = nil
	s.mu.Unlock()
}

// Scan yields the entries whose key starts with prefix, by key.
func (s *State) Scan(ctx context.Context, prefix string) iter.Seq2[connectors.Entry, error] {
	return func(yield func(connectors.Entry, error) bool) {
		s.mu.Lock()
		over := map[string][]byte{}
		for _, m := range append(slices.Clone(s.taken), s.fresh) {
			for k, v := range m {
				if strings.HasPrefix(k, prefix) {
					over[k] = v
				}
			}
		}
		s.mu.Unlock()
		keys := slices.Sorted(maps.Keys(over))
		lay := func(until string, all bool) bool { // yields what is laid over, up to a stored key
			for len(keys) > 0 && (all || keys[0] < until) {
				k := keys[0]
				keys = keys[1:]
				if over[k] != nil && !yield(connectors.Entry{Key: k, Value: over[k]}, nil) {
					return false
				}
			}
			return true
		}
		for rec, err := range Scan(ctx, s.client, bus.TopicState, s.space+"/"+prefix) {
			if err != nil {
				yield(connectors.Entry{}, err)
				return
			}
			key := strings.TrimPrefix(rec.Key, s.space+"/")
			if !lay(key, false) {
				return
			}
			if _, hidden := over[key]; hidden {
				continue
			}
			if !yield(connectors.Entry{Key: key, Value: rec.Data}, nil) {
				return
			}
		}
		lay("", true)
	}
}

// Take returns what was put since the last take, as part of a batch.
func (s *State) Take() []bus.Keyed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fresh) == 0 {
		return nil
	}
	keyed := make([]bus.Keyed, 0, len(s.fresh))
	for _, k := range slices.Sorted(maps.Keys(s.fresh)) {
		keyed = append(keyed, bus.Keyed{Space: s.space, Key: k, Value: s.fresh[k]})
	}
	s.taken = append(s.taken, s.fresh)
	s.fresh = map[string][]byte{}
	return keyed
}

// Stored says that the oldest batch taken is durable.
func (s *State) Stored() {
	s.mu.Lock()
	s.taken = s.taken[1:]
	s.mu.Unlock()
}
