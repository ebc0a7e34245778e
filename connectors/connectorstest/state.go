package connectorstest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	"millrace/connectors"
)

// State is a component's store in memory. What is put is there at once; Clone is
// what is stored with an answer. It belongs to one goroutine.
type State struct{ m map[string][]byte }

// NewState makes an empty one.
func NewState() *State { return &State{m: map[string][]byte{}} }

// Clone is a copy that later changes do not reach.
func (s *State) Clone() *State { return &State{m: maps.Clone(s.m)} }

// Len is how many keys there are.
func (s *State) Len() int { return len(s.m) }

// Get returns a key's value.
func (s *State) Get(ctx context.Context, key string) ([]byte, bool, error) {
	v, ok := s.m[key]
	return v, ok, ctx.Err()
}

// Put sets a key.
func (s *State) Put(key string, value []byte) { s.m[key] = slices.Clone(value) }

// Delete removes a key.
func (s *State) Delete(key string) { delete(s.m, key) }

// Scan yields the entries that are there now and whose key starts with prefix, by
// key.
func (s *State) Scan(ctx context.Context, prefix string) iter.Seq2[connectors.Entry, error] {
	now := maps.Clone(s.m)
	return func(yield func(connectors.Entry, error) bool) {
		for _, k := range slices.Sorted(maps.Keys(now)) {
			if !strings.HasPrefix(k, prefix) {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(connectors.Entry{}, err)
				return
			}
			if !yield(connectors.Entry{Key: k, Value: now[k]}, nil) {
				return
			}
		}
	}
}
