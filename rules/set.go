package rules

import (
	"millrace/bus/event"
	"millrace/rules/exprs"
	"millrace/rules/pattern"
)

// Set judges an event against all rules of a topic at once. It never changes and
// may be used by many goroutines at once, each with its own Scratch; a change of
// rules makes a new Set.
type Set struct {
	programs []*Program
	index    *pattern.Index
}

// NewSet makes a set of programs; Match answers with their positions in the list,
// which the set keeps a copy of.
func NewSet(programs []*Program) *Set {
	patterns := make([]*pattern.Pattern, len(programs))
	for i, p := range programs {
		patterns[i] = p.when
	}
	return &Set{programs: append([]*Program(nil), programs...), index: pattern.NewIndex(patterns)}
}

// Len is the number of programs.
func (s *Set) Len() int { return len(s.programs) }

// Program returns program number i.
func (s *Set) Program(i int32) *Program { return s.programs[i] }

// Scratch is the memory one goroutine reuses from match to match. The zero value
// is ready, and may serve any number of sets in turn.
type Scratch struct {
	// Failures are the expressions that failed in the last Match; each counted as
	// no match of its program. Someone should count and show them.
	Failures []Failure

	pattern pattern.Scratch
	cache   exprs.Cache
}

// Failure is a where that failed on an event.
type Failure struct {
	Program int32
	Err     error
}

// Match returns the positions of the programs that match e, rising. The list
// holds until the next call with the same scratch. Nothing is allocated, unless
// an expression does. A where is evaluated only where its when has matched.
func (s *Set) Match(e *event.Event, scratch *Scratch) []int32 {
	scratch.Failures = scratch.Failures[:0]
	found := s.index.Match(e, &scratch.pattern)
	out := found[:0] // the index is done with its list
	fresh := true
	for _, i := range found {
		where := s.programs[i].where
		if where != nil {
			if fresh {
				scratch.cache.Reset(e)
				fresh = false
			}
			ok, err := where.BoolIn(&scratch.cache)
			if err != nil {
				scratch.Failures = append(scratch.Failures, Failure{i, err})
			}
			if !ok {
				continue
			}
		}
		out = append(out, i)
	}
	return out
}
