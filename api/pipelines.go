package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"millrace/api/desired"
	"millrace/api/rest"
)

func (s *Server) pipelineRoutes() []rest.Route {
	return []rest.Route{
		{Method: http.MethodPost, Path: "/apply", Handle: s.apply, Query: []string{"dryRun", "dry-run", "prune"}},
		{Method: http.MethodGet, Path: "/pipelines", Handle: s.listPipelines},
		{Method: http.MethodGet, Path: "/pipelines/:name", Handle: s.getPipeline},
		{Method: http.MethodPut, Path: "/pipelines/:name", Handle: s.putPipeline},
		{Method: http.MethodDelete, Path: "/pipelines/:name", Handle: s.deletePipeline},
	}
}

// apply makes everything as the resources say. All are checked before any is
// changed; applying the same again changes nothing. A dry run answers the same
// and changes nothing; prune deletes what earlier calls made and this one lacks.
func (s *Server) apply(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var list desired.ResourceList
	if err := r.Decode(&list); err != nil {
		return rest.Answer{}, err
	}
	dry, err := r.Bool("dryRun")
	if err == nil && !dry {
		dry, err = r.Bool("dry-run")
	}
	if err != nil {
		return rest.Answer{}, err
	}
	prune, err := r.Bool("prune")
	if err != nil {
		return rest.Answer{}, err
	}
	p, err := s.desired.Begin(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	defer p.Close()
	changes, err := p.Apply(ctx, "resources", list.Resources, prune)
	if err != nil {
		return rest.Answer{}, err
	}
	if !dry {
		if err := p.Commit(ctx); err != nil {
			return rest.Answer{}, err
		}
	}
	return rest.OK(changes)
}

type pipeline struct {
	Name      string             `json:"name"`
	Resources []desired.Resource `json:"resources"`
}

type pipelineChange struct {
	Name    string           `json:"name"`
	Action  desired.Action   `json:"action"`
	Changes []desired.Change `json:"changes"`
}

func (s *Server) listPipelines(ctx context.Context, _ *rest.Request) (rest.Answer, error) {
	v, err := s.desired.View(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	out := []pipeline{}
	for _, name := range slices.Sorted(maps.Keys(v.Pipelines)) {
		if !strings.HasPrefix(name, "/") { // what POST /apply keeps for itself
			out = append(out, pipeline{name, v.Pipelines[name].Resources})
		}
	}
	return rest.OK(out)
}

func (s *Server) getPipeline(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	v, err := s.desired.View(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["name"]
	p, ok := v.Pipelines[name]
	if !ok || strings.HasPrefix(name, "/") {
		return rest.Answer{}, rest.NotFound("no such pipeline: %s: create it with PUT /pipelines/%s", name, name)
	}
	return rest.OK(pipeline{name, p.Resources})
}

func (s *Server) putPipeline(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var list desired.ResourceList
	if err := r.Decode(&list); err != nil {
		return rest.Answer{}, err
	}
	out := pipelineChange{Name: r.Params["name"], Changes: []desired.Change{}}
	action, err := s.change(ctx, func(p *desired.Plan) (desired.Action, error) {
		a, changes, err := p.PutPipeline(ctx, out.Name, list.Resources)
		out.Changes = append(out.Changes, changes...)
		return a, err
	})
	out.Action = action
	return rest.Answer{Status: statusOf(action), Body: out}, err
}

func (s *Server) deletePipeline(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	return s.remove(ctx, func(p *desired.Plan) error { return p.DeletePipeline(r.Params["name"]) })
}
