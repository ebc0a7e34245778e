package api

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"millrace/api/desired"
	"millrace/api/rest"
)

func (s *Server) connectionRoutes() []rest.Route {
	return []rest.Route{
		{Method: http.MethodGet, Path: "/connections", Handle: s.listConnections},
		{Method: http.MethodGet, Path: "/connections/:name", Handle: s.getConnection},
		{Method: http.MethodPut, Path: "/connections/:name", Handle: s.putConnection},
		{Method: http.MethodDelete, Path: "/connections/:name", Handle: s.deleteConnection, Query: []string{"force"}},
	}
}

// connection shows what was sent: secrets are references in it, never resolved.
type connection struct {
	Name string                 `json:"name"`
	Spec desired.ConnectionSpec `json:"spec"`
}

func (s *Server) listConnections(ctx context.Context, _ *rest.Request) (rest.Answer, error) {
	v, err := s.desired.View(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	out := []connection{}
	for _, name := range slices.Sorted(maps.Keys(v.Connections)) {
		out = append(out, connection{name, desired.Connection(v.Connections[name])})
	}
	return rest.OK(out)
}

func (s *Server) getConnection(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	v, err := s.desired.View(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["name"]
	keys, ok := v.Connections[name]
	if !ok {
		return rest.Answer{}, rest.NotFound("no such connection: %s: create it with PUT /connections/%s", name, name)
	}
	return rest.OK(connection{name, desired.Connection(keys)})
}

func (s *Server) putConnection(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	raw, err := r.Object()
	if err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["name"]
	var keys map[string]string
	action, err := s.change(ctx, func(p *desired.Plan) (desired.Action, error) {
		a, err := p.PutConnection(name, raw)
		keys = p.Connections[name]
		return a, err
	})
	return rest.Answer{Status: statusOf(action), Body: connection{name, desired.Connection(keys)}}, err
}

func (s *Server) deleteConnection(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	force, err := r.Bool("force")
	if err != nil {
		return rest.Answer{}, err
	}
	return s.remove(ctx, func(p *desired.Plan) error { return p.DeleteConnection(r.Params["name"], force) })
}
