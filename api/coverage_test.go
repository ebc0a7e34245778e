package api

import (
	"sync"
	"testing"
)

// coverage collects which routes were asked for, from the servers' own counters.
type coverage struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (c *coverage) add(t *testing.T, s *Server) {
	t.Helper()
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	for _, f := range families {
		if f.GetName() != "millrace_http_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["status"] < "400" || labels["status"] == "501" {
				c.seen[labels["method"]+" "+labels["route"]] = true
			}
		}
	}
}

func (c *coverage) has(route string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[route]
}
