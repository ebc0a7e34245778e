package desired

import (
	"context"
	"strings"
	"time"

	"millrace/rules"
	"millrace/workers"
)

// sweepEvery is how often Run looks for topics that nothing wants any more. A
// worker that has not yet heard that a rule is gone may make its delivery topic
// once more; so may one that lost a target.
const sweepEvery = 10 * time.Second

// sweep drops such topics until ctx ends: those that two looks in a row have
// found unwanted, so that no worker is behind any more.
func (s *Store) sweep(ctx context.Context) error {
	tick := time.NewTicker(s.o.SweepEvery)
	defer tick.Stop()
	found := map[uint64]bool{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		next, err := s.sweepOnce(ctx, found)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.o.Logger.Warn("unwanted topics are not dropped", "error", err)
			continue
		}
		found = next
	}
}

// sweepOnce drops the unwanted topics that were found before and returns the ids
// of the others.
func (s *Store) sweepOnce(ctx context.Context, before map[uint64]bool) (map[uint64]bool, error) {
	p, err := s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	wanted := map[string]bool{}
	for name := range p.Connectors {
		wanted[workers.RedriveTopic(name)] = true
	}
	for name, def := range p.Rules {
		rule, err := rules.Parse(name, def.Spec)
		if err != nil {
			return nil, err // what it wants cannot be told: nothing is dropped
		}
		for _, t := range rule.To {
			wanted[workers.TargetTopic(name, t.Name)] = true
		}
	}
	targets, redrives := strings.TrimSuffix(workers.TargetTopic("", ""), "."), workers.RedriveTopic("")
	found := map[uint64]bool{}
	for _, name := range sortedKeys(p.topics) {
		t := p.topics[name]
		if wanted[name] || !t.Consumed || !strings.HasPrefix(name, targets) && !strings.HasPrefix(name, redrives) {
			continue
		}
		if !before[t.ID] {
			found[t.ID] = true
			continue
		}
		if now, err := s.o.Client.Topic(ctx, name); err != nil || now.ID != t.ID {
			continue // it has gone or was made again meanwhile
		}
		if err := p.clean(ctx, []string{name}, nil); err != nil {
			return nil, err
		}
		s.o.Logger.Info("unwanted topic dropped", "topic", name)
	}
	return found, nil
}
