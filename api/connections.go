package api

import (
	"context"
	"encoding/json"
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
	Name string          `json:"name"`
	Spec json.RawMessage `json:"spec"`
}

func (s *Server) listConnections(ctx context.Context, _ *rest.Request) (rest.Answer, error) {
	v, err := s.desired.View(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	out := []connection{}
	for _, name := range slices.Sorted(maps.Keys(v.Connections)) {
		out = append(out, connection{name, v.Connections[name]})
	}
	return rest.OK(out)
}

func (s *Server) getConnection(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	v, err := s.desired.View(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["name"]
	raw, ok := v.Connections[name]
	if !ok {
		return rest.Answer{}, rest.NotFound("no such connection: %s: create it with PUT /connections/%s", name, name)
	}
	return rest.OK(connection{name, raw})
}

func (s *Server) putConnection(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	raw, err := r.Object()
	if err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["name"]
	action, err := s.change(ctx, func(p *desired.Plan) (desired.Action, error) { return p.PutConnection(name, raw) })
	return rest.Answer{Status: statusOf(action), Body: connection{name, raw}}, err
}

func (s *Server) deleteConnection(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	force, err := r.Bool("force")
	if err != nil {
		return rest.Answer{}, err
	}
	return s.remove(ctx, func(p *desired.Plan) error { return p.DeleteConnection(r.Params["name"], force) })
}
