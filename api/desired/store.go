package desired

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"millrace/bus"
	"millrace/bus/table"
	"millrace/connectors"
	"millrace/workers"
)

// TopicPipelines is the table of pipelines.
const TopicPipelines = "__pipelines"

// Options of New.
type Options struct {
	Client  bus.Client
	Plugins []connectors.Plugin
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: nowhere
	// SweepEvery is how often Run looks for topics that nothing wants any more; 0
	// means 10 s.
	SweepEvery time.Duration
}

// Store reads and changes the tables of desired state.
type Store struct {
	o    Options
	turn chan struct{} // holds a token while a Plan is open

	mu        sync.Mutex
	following bool   // Run sees every change
	changes   uint64 // seen so far
	view      *View  // nil: to be read
}

// View is what is wanted at one moment. It is shared and never changes.
// Connections are the keys that each adds to a target's config.
type View struct {
	Connections map[string]map[string]string
	Connectors  map[string]workers.ConnectorDef
	Rules       map[string]workers.RuleDef
	Pipelines   map[string]Pipeline
}

// New makes a Store; its tables are made when they are first read.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.SweepEvery <= 0 {
		o.SweepEvery = sweepEvery
	}
	return &Store{o: o, turn: make(chan struct{}, 1)}
}

// tables are the topics that a View shows.
func tables() []string {
	return []string{workers.TopicConnections, bus.TopicConfig, workers.TopicRules, TopicPipelines}
}

// Run follows the tables until ctx ends, so that Views need not be read anew for
// each request (without it every View is), and drops topics that rules and
// connectors leave behind.
func (s *Store) Run(ctx context.Context) error {
	if _, err := s.View(ctx); err != nil { // makes the tables
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(tables())+1)
	var all sync.WaitGroup
	for _, topic := range tables() {
		all.Go(func() { failed <- s.follow(ctx, topic) })
	}
	all.Go(func() { failed <- s.sweep(ctx) })
	s.setFollowing(true)
	err := <-failed
	s.setFollowing(false)
	cancel()
	all.Wait()
	return err
}

func (s *Store) follow(ctx context.Context, topic string) error {
	for seen := int64(-1); ; {
		v, err := s.o.Client.Changed(ctx, topic, seen)
		if err != nil {
			return fmt.Errorf("table %s: %w", topic, err)
		}
		seen = v
		s.changed()
	}
}

// changed makes the next View be read anew.
func (s *Store) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.view = nil
}

func (s *Store) setFollowing(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.following, s.view = on, nil
}

// View returns what is wanted now; all that this Store committed is in it, and
// what other nodes did as soon as Run has heard of it.
func (s *Store) View(ctx context.Context) (*View, error) {
	s.mu.Lock()
	v, changes := s.view, s.changes
	s.mu.Unlock()
	if v != nil {
		return v, nil
	}
	v = &View{}
	err := read(ctx, s, workers.TopicConnections, &v.Connections)
	if err == nil {
		err = read(ctx, s, bus.TopicConfig, &v.Connectors)
	}
	if err == nil {
		err = read(ctx, s, workers.TopicRules, &v.Rules)
	}
	if err == nil {
		err = read(ctx, s, TopicPipelines, &v.Pipelines)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.following && changes == s.changes {
		s.view = v
	}
	return v, nil
}

func read[T any](ctx context.Context, s *Store, topic string, into *map[string]T) error {
	t, err := table.Open[T](ctx, s.o.Client, topic, table.Options{Logger: s.o.Logger})
	if err != nil {
		return err
	}
	*into = t.Snapshot()
	return nil
}
