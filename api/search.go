package api

import (
	"context"
	"net/http"
	"path/filepath"

	"millrace/api/rest"
	"millrace/connectors"
)

func (s *Server) searchRoutes() []rest.Route {
	return []rest.Route{{Method: http.MethodPost, Path: "/search/:sink", Handle: s.search}}
}

type searchBody struct {
	Query  string         `json:"query"`
	Top    int            `json:"top"`
	Filter map[string]any `json:"filter"`
}

type searchResult struct {
	Results []connectors.Hit `json:"results"`
}

const maxTop = 1000

// search asks the store of a sink, beside its running tasks.
func (s *Server) search(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var body searchBody
	if err := r.Decode(&body); err != nil {
		return rest.Answer{}, err
	}
	if body.Query == "" {
		return rest.Answer{}, rest.Bad("query", "is required: what to look for")
	}
	if body.Top < 0 || body.Top > maxTop {
		return rest.Answer{}, rest.Bad("top", "%d is not from 1 to %d", body.Top, maxTop)
	}
	if body.Top == 0 {
		body.Top = 5
	}
	name := r.Params["sink"]
	c, err := s.desired.Connector(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	if c.Sink == nil || c.Sink.Search == nil {
		return rest.Answer{}, rest.Bad("sink", "connector %s (%s) cannot be asked: name a sink with a search, such as a vectors-sink", name, c.Def.Config["connector.class"])
	}
	searcher, err := c.Sink.Search(ctx, c.Own, connectors.Env{
		Connector: name, Tasks: 1, Logger: s.log, Now: s.now, DataDir: filepath.Join(s.dataDir, "connectors", name),
	})
	if err != nil {
		return rest.Answer{}, err
	}
	hits, err := searcher.Search(ctx, connectors.Query{Text: body.Query, Top: body.Top, Filter: body.Filter})
	if err != nil {
		return rest.Answer{}, err
	}
	if hits == nil {
		hits = []connectors.Hit{}
	}
	return rest.OK(searchResult{hits})
}
