package rpc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/bus"
)

// idle is when a session nobody asked for is forgotten; its lease is long over.
const idle = 15 * time.Minute

// sessions are the members that this server keeps for remote workers.
type sessions struct {
	mu sync.Mutex
	m  map[string]*session
}

// session is one remote member. The worker's word that it has stopped a slot is
// its next call of Slots, so it must have had the answer that took the slot away:
// answers are numbered, and one that was lost is given again.
type session struct {
	m    bus.Member
	turn chan struct{} // holds one token: whoever has it may use the rest

	seq  uint64
	last []bus.Slot // answer number seq

	used time.Time // guarded by sessions.mu
}

// add keeps m and returns its id, which nobody can guess.
func (s *sessions) add(m bus.Member) string {
	id := rand.Text()
	now := time.Now()
	se := &session{m: m, turn: make(chan struct{}, 1), used: now}
	se.turn <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[string]*session{}
	}
	for old, se := range s.m {
		if now.Sub(se.used) > idle {
			delete(s.m, old)
		}
	}
	s.m[id] = se
	return id
}

// get returns a session and marks it used; nil if there is none.
func (s *sessions) get(id string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	se := s.m[id]
	if se != nil {
		se.used = time.Now()
	}
	return se
}

func (s *sessions) drop(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, id)
}

// slots asks for the answer after number ack, which is the last that arrived.
func (s *sessions) slots(ctx context.Context, id string, ack uint64) (uint64, []bus.Slot, error) {
	se := s.get(id)
	if se == nil {
		return 0, nil, &bus.Error{Kind: bus.ErrNoMember, Thing: "member " + id, Msg: "is not known here (any more): join again"}
	}
	select {
	case <-se.turn:
		defer func() { se.turn <- struct{}{} }()
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
	switch se.seq {
	case ack + 1: // Invariant 11: it does not know yet what it must stop
		return se.seq, se.last, nil
	case ack:
	default:
		return 0, nil, &bus.Error{Kind: bus.ErrInvalid, Thing: "member " + id, Field: "ack", Msg: fmt.Sprintf("is %d, the last answer is %d: one call at a time", ack, se.seq)}
	}
	// It goes on when the connection is lost, so that the next try finds its answer
	// and a lease is not waited away in tries; the bus ends it after a third of it.
	slots, err := se.m.Slots(context.WithoutCancel(ctx))
	if errors.Is(err, bus.ErrNoMember) {
		s.drop(id)
	}
	if err != nil {
		return 0, nil, err
	}
	se.seq++
	se.last = slots
	return se.seq, slots, nil
}

// leave gives the slots back; a member that is not known has none.
func (s *sessions) leave(ctx context.Context, id string) error {
	se := s.get(id)
	if se == nil {
		return nil
	}
	if err := se.m.Leave(ctx); err != nil {
		return err
	}
	s.drop(id)
	return nil
}
