package api

import (
	"context"
	_ "embed" // for openapi.yaml
	"net/http"
	"time"

	"millrace/api/rest"
)

//go:embed openapi.yaml
var openapi []byte

func (s *Server) healthRoutes() []rest.Route {
	return []rest.Route{
		{Method: http.MethodGet, Path: "/healthz", Handle: s.healthz, Open: true, Lenient: true},
		{Method: http.MethodGet, Path: "/readyz", Handle: s.readyz, Open: true, Lenient: true},
		{Method: http.MethodGet, Path: "/health", Handle: s.health, Lenient: true},
		{Method: http.MethodGet, Path: "/metrics", Handle: s.metrics.serve, Lenient: true},
		{Method: http.MethodGet, Path: "/openapi.yaml", Handle: s.openapi},
	}
}

type healthState struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// healthz says that the process answers; it looks at nothing else.
func (s *Server) healthz(context.Context, *rest.Request) (rest.Answer, error) {
	return rest.OK(healthState{"healthy", "the server answers"})
}

// readyz says whether requests can be served: the log answers and the node's own
// check passes.
func (s *Server) readyz(ctx context.Context, _ *rest.Request) (rest.Answer, error) {
	if err := s.ready(ctx); err != nil {
		return rest.Answer{}, rest.Fail(http.StatusServiceUnavailable, "", "not ready: %v", err)
	}
	return rest.OK(healthState{"healthy", "ready"})
}

// health is Kafka Connect's form of readyz.
func (s *Server) health(ctx context.Context, _ *rest.Request) (rest.Answer, error) {
	a := rest.Answer{Body: healthState{"healthy", "the worker has finished its start and is ready to serve"}}
	if err := s.ready(ctx); err != nil {
		a = rest.Answer{Status: http.StatusServiceUnavailable, Body: healthState{"unhealthy", err.Error()}}
	}
	return a, nil
}

func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case <-s.stopping:
		return rest.Fail(http.StatusServiceUnavailable, "", "the server is stopping")
	default:
	}
	if _, err := s.client.Topics(ctx); err != nil {
		return err
	}
	if s.check == nil {
		return nil
	}
	return s.check(ctx)
}

func (s *Server) openapi(context.Context, *rest.Request) (rest.Answer, error) {
	return rest.Answer{Raw: openapi, Type: "application/yaml"}, nil
}
