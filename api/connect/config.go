package connect

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"

	"millrace/api/rest"
)

// getConfig shows what was sent, references unresolved.
func (s *Service) getConfig(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	c, err := s.Desired.Connector(ctx, r.Params["connector"])
	return rest.Answer{Body: c.Def.Config}, err
}

func (s *Service) putConfig(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	raw, err := r.Object()
	if err != nil {
		return rest.Answer{}, err
	}
	config, err := rest.FlatConfig(raw)
	if err != nil {
		return rest.Answer{}, err
	}
	return s.store(ctx, r.Params["connector"], config, "", false)
}

// patchConfig lays the body over the config; null takes a key away.
func (s *Service) patchConfig(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	raw, err := r.Object()
	if err != nil {
		return rest.Answer{}, err
	}
	var patch map[string]json.RawMessage
	if err := rest.Strict("", raw, &patch); err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["connector"]
	c, err := s.Desired.Connector(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	set, err := rest.FlatConfig(raw)
	if err != nil {
		return rest.Answer{}, err
	}
	config := maps.Clone(c.Def.Config)
	maps.Copy(config, set)
	for key, v := range patch {
		if string(v) == "null" {
			delete(config, key)
		}
	}
	a, err := s.store(ctx, name, config, "", false)
	a.Status = http.StatusOK
	return a, err
}
