package api

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"sync"

	"millrace/api/rest"
	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
	"millrace/transforms"
	"millrace/workers"
)

func (s *Server) webhookRoutes() []rest.Route {
	return []rest.Route{
		{Method: http.MethodPost, Path: "/webhooks/:name", Handle: s.webhook, Open: true, Lenient: true, Events: true},
	}
}

// receivers keeps the receiver of each webhook source while its config stays.
type receivers struct {
	mu     sync.Mutex
	byName map[string]receiver
}

type receiver struct {
	config map[string]string
	chain  *transforms.Chain // of the connector's transforms
	connectors.Receiver
}

// receive turns a request into events, shaped as the connector's transforms say.
// One that they cannot shape refuses the request.
func (c *receiver) receive(ctx context.Context, r *rest.Request) ([]connectors.Out, error) {
	outs, err := c.Receive(ctx, r.HTTP, r.Body)
	if err != nil || c.chain.Len() == 0 {
		return outs, err
	}
	events := make([]event.Event, len(outs))
	for i := range outs {
		events[i] = outs[i].Event
	}
	results, err := c.chain.Apply(ctx, events)
	if err != nil {
		return nil, err
	}
	shaped := make([]connectors.Out, len(results))
	for i, r := range results {
		if r.Err != nil {
			return nil, rest.Fail(http.StatusUnprocessableEntity, "", "the event cannot be shaped: %v", r.Err)
		}
		shaped[i] = connectors.Out{Topic: outs[r.Parent].Topic, Event: r.Event}
	}
	return shaped, nil
}

// webhook takes a request for a webhook source and answers once its events are
// durable. It asks for no token: the source's signature check is the guard.
// Invariants 1 and 5.
func (s *Server) webhook(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	name := r.Params["name"]
	rec, err := s.receiver(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	outs, err := rec.receive(ctx, r)
	if err != nil {
		return rest.Answer{}, err
	}
	places := make([]stored, len(outs))
	if len(outs) == 0 {
		return rest.OK(places)
	}
	batch := bus.Batch{}
	index := map[string]int{} // topic → its Write
	in := make([][]int, 0, 1) // Write → numbers of its events
	for i, o := range outs {
		w, ok := index[o.Topic]
		if !ok {
			w = len(batch.Writes)
			index[o.Topic] = w
			batch.Writes = append(batch.Writes, bus.Write{Topic: o.Topic})
			in = append(in, nil)
		}
		batch.Writes[w].Events = append(batch.Writes[w].Events, o.Event)
		in[w] = append(in[w], i)
	}
	at, err := s.client.Append(ctx, batch)
	if errors.Is(err, bus.ErrNoTopic) { // sources create a missing topic with defaults
		for topic := range index {
			if _, err := s.client.CreateTopic(ctx, bus.Topic{Name: topic}); err != nil && !errors.Is(err, bus.ErrConflict) {
				return rest.Answer{}, err
			}
		}
		at, err = s.client.Append(ctx, batch)
	}
	if err != nil {
		return rest.Answer{}, err
	}
	for _, numbers := range in {
		for _, i := range numbers {
			places[i] = stored{ID: outs[i].Event.ID, Topic: outs[i].Topic, Queue: at[0].Queue, Offset: at[0].Offset}
			at = at[1:]
		}
	}
	return rest.OK(places)
}

// receiver finds or makes the receiver of a running webhook source.
func (s *Server) receiver(ctx context.Context, name string) (*receiver, error) {
	v, err := s.desired.View(ctx)
	if err != nil {
		return nil, err
	}
	def, ok := v.Connectors[name]
	if !ok {
		s.receivers.mu.Lock()
		delete(s.receivers.byName, name)
		s.receivers.mu.Unlock()
		return nil, rest.NotFound("no such webhook: %s: create a webhook-source of that name with POST /connectors", name)
	}
	s.receivers.mu.Lock()
	cached, ok := s.receivers.byName[name]
	s.receivers.mu.Unlock()
	if !ok || !maps.Equal(cached.config, def.Config) {
		if cached, err = s.newReceiver(name, def.Config); err != nil {
			return nil, err
		}
		s.receivers.mu.Lock()
		s.receivers.byName[name] = cached
		s.receivers.mu.Unlock()
	}
	if def.State == workers.StatePaused || def.State == workers.StateStopped {
		return nil, &rest.Error{Status: http.StatusServiceUnavailable, Msg: "connector " + name + " is " + def.State, RetryAfter: pausedRetry}
	}
	return &cached, nil
}

func (s *Server) newReceiver(name string, config map[string]string) (receiver, error) {
	parsed, err := s.desired.Parse(config)
	if err != nil {
		return receiver{}, err
	}
	if parsed.Source == nil || parsed.Source.Receiver == nil {
		return receiver{}, rest.NotFound("connector %s is a %s: only a webhook-source takes requests", name, parsed.Class)
	}
	unfit := func(err error) error {
		return rest.Fail(http.StatusServiceUnavailable, "", "connector %s cannot take requests: %v", name, err)
	}
	var steps []json.RawMessage
	if raw := parsed.SourceConfig.Transforms; len(raw) > 0 {
		if err := json.Unmarshal(raw, &steps); err != nil {
			return receiver{}, unfit(err)
		}
	}
	chain, err := transforms.Compile(steps, transforms.Env{Now: s.now})
	if err != nil {
		return receiver{}, unfit(err)
	}
	made, err := parsed.Source.Receiver(parsed.Own, connectors.Env{Connector: name, Tasks: 1, Logger: s.log, Now: s.now})
	if err != nil {
		return receiver{}, unfit(err)
	}
	return receiver{config, chain, made}, nil
}
