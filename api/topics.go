package api

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/bus"
)

func (s *Server) topicRoutes() []rest.Route {
	return []rest.Route{
		{Method: http.MethodGet, Path: "/topics", Handle: s.listTopics, Query: []string{"internal"}},
		{Method: http.MethodGet, Path: "/topics/:topic", Handle: s.getTopic},
		{Method: http.MethodPut, Path: "/topics/:topic", Handle: s.putTopic},
		{Method: http.MethodDelete, Path: "/topics/:topic", Handle: s.deleteTopic, Query: []string{"force"}},
	}
}

func (s *Server) listTopics(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	internal, err := r.Bool("internal")
	if err != nil {
		return rest.Answer{}, err
	}
	all, err := s.client.Topics(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	shown := slices.DeleteFunc(slices.Clone(all), func(t bus.Topic) bool { return !internal && t.Internal() })
	if shown == nil {
		shown = []bus.Topic{}
	}
	return rest.OK(shown)
}

// topic is Client.Topic whose 404 says how to make one.
func (s *Server) topic(ctx context.Context, name string) (bus.Topic, error) {
	t, err := s.client.Topic(ctx, name)
	if errors.Is(err, bus.ErrNoTopic) {
		return t, desired.NoTopic(name)
	}
	return t, err
}

// topicDetail is a topic with what each of its queues holds.
type topicDetail struct {
	bus.Topic
	Bounds []queueBound `json:"bounds"`
}

type queueBound struct {
	Queue int   `json:"queue"`
	First int64 `json:"first"`
	Next  int64 `json:"next"`
}

func (s *Server) getTopic(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	t, err := s.topic(ctx, r.Params["topic"])
	if err != nil {
		return rest.Answer{}, err
	}
	bounds, err := s.client.Bounds(ctx, t.Name)
	if err != nil {
		return rest.Answer{}, err
	}
	d := topicDetail{Topic: t, Bounds: []queueBound{}}
	for _, b := range bounds {
		d.Bounds = append(d.Bounds, queueBound(b))
	}
	return rest.OK(d)
}

func (s *Server) putTopic(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var spec desired.TopicSpec
	if err := r.DecodeOptional(&spec); err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["topic"]
	action, err := s.change(ctx, func(p *desired.Plan) (desired.Action, error) { return p.PutTopic(name, spec) })
	if err != nil {
		return rest.Answer{}, err
	}
	t, err := s.topic(ctx, name)
	return rest.Answer{Status: statusOf(action), Body: t}, err
}

// deleteTopic refuses while something uses the topic, and names it; with force it
// goes all the same.
func (s *Server) deleteTopic(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	force, err := r.Bool("force")
	if err != nil {
		return rest.Answer{}, err
	}
	return s.remove(ctx, func(p *desired.Plan) error { return p.DeleteTopic(r.Params["topic"], force) })
}

// change plans and makes one change.
func (s *Server) change(ctx context.Context, do func(*desired.Plan) (desired.Action, error)) (desired.Action, error) {
	p, err := s.desired.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer p.Close()
	action, err := do(p)
	if err != nil {
		return "", err
	}
	return action, p.Commit(ctx)
}

// remove is change for what answers 204.
func (s *Server) remove(ctx context.Context, do func(*desired.Plan) error) (rest.Answer, error) {
	_, err := s.change(ctx, func(p *desired.Plan) (desired.Action, error) { return desired.Deleted, do(p) })
	return rest.Answer{Status: http.StatusNoContent}, err
}

// statusOf is 201 for what was created, else 200.
func statusOf(a desired.Action) int {
	if a == desired.Created {
		return http.StatusCreated
	}
	return http.StatusOK
}
