package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/workers/loop"
)

// probes are sinks that tests look into, by id; they outlive their sessions.
type probes struct {
	mu sync.Mutex
	m  map[string]*probe
}

// probe is what one target holds.
type probe struct {
	mu       sync.Mutex
	flushed  []event.Record
	fail     func(event.Record) error // refuses single records
	crash    func([]event.Record) error
	flushErr func() error
	hang     chan struct{} // writes wait until it is closed, whatever ctx says
	offsets  map[string]int64
	opened   int
	writes   int
}

type probeConfig struct {
	ID   string `json:"id" doc:"which probe" spec:"required"`
	Keep bool   `json:"keep" doc:"keeps offsets with the data"`
}

type httpConfig struct {
	URL   string `json:"url" doc:"the probe's id behind probe://" spec:"required"`
	Token string `json:"token" doc:"from the connection"`
}

func (p *probes) get(id string) *probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m[id] == nil {
		p.m[id] = &probe{offsets: map[string]int64{}}
	}
	return p.m[id]
}

func (p *probes) open(_ context.Context, c probeConfig, _ connectors.Env) (connectors.Sink, error) {
	s := &session{p: p.get(c.ID)}
	s.p.mu.Lock()
	s.p.opened++
	s.p.mu.Unlock()
	if c.Keep {
		return &keeper{s}, nil
	}
	return s, nil
}

func (p *probes) openHTTP(_ context.Context, c httpConfig, _ connectors.Env) (connectors.Sink, error) {
	return &session{p: p.get(c.URL + c.Token)}, nil
}

// session is one opened sink. What it took becomes visible when it is flushed.
type session struct {
	p     *probe
	taken []event.Record
}

func (s *session) Write(_ context.Context, recs []event.Record) error {
	s.p.mu.Lock()
	hang, crash, fail := s.p.hang, s.p.crash, s.p.fail
	s.p.writes++
	s.p.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if crash != nil {
		if err := crash(recs); err != nil {
			return err
		}
	}
	failed := map[int]error{}
	for i := range recs {
		if fail != nil {
			if err := fail(recs[i]); err != nil {
				failed[i] = err
				continue
			}
		}
		s.taken = append(s.taken, recs[i])
	}
	if len(failed) > 0 {
		return &connectors.BatchError{Failed: failed}
	}
	return nil
}

func (s *session) Flush(context.Context) error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if s.p.flushErr != nil {
		if err := s.p.flushErr(); err != nil {
			return err
		}
	}
	s.p.flushed = append(s.p.flushed, s.taken...)
	for _, r := range s.taken {
		s.p.offsets[loop.SlotName(r.Topic, r.Queue)] = r.Offset + 1
	}
	s.taken = nil
	return nil
}

func (s *session) Close() error { return nil }

type keeper struct{ *session }

func (k *keeper) Offsets(context.Context) (map[string]int64, error) {
	k.p.mu.Lock()
	defer k.p.mu.Unlock()
	return maps.Clone(k.p.offsets), nil
}

// got lists the ids the probe holds, in order.
func (p *probe) got() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return ids(p.flushed)
}

func (p *probe) set(f func(*probe)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

// holds waits until a probe holds exactly these ids in order.
func (w *world) holds(id string, want []string) {
	w.t.Helper()
	p := w.probes.get(id)
	w.until(fmt.Sprintf("%d events in probe %s", len(want), id), func() bool { return len(p.got()) >= len(want) })
	if got := p.got(); !slices.Equal(got, want) {
		w.t.Fatalf("probe %s holds\n%v, want\n%v", id, got, want)
	}
}

// number is n of an event's data.
func number(rec event.Record) (n int) {
	var d struct{ N int }
	if json.Unmarshal(rec.Data, &d) != nil {
		return -1
	}
	return d.N
}
