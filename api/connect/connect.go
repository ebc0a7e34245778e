package connect

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/bus"
	"millrace/workers"
)

// Service answers for one node.
type Service struct {
	Client  bus.Client
	Desired *desired.Store
	Logger  *slog.Logger
	// Version is Millrace's; Cluster names the log that the node works on; WorkerID
	// is the node's name.
	Version, Cluster, WorkerID string
}

// protocol is the version of Kafka Connect whose API this is: clients gate
// features on it.
const protocol = "4.0.0"

// Routes lists what the service answers. Query parameters that it does not know
// are ignored, as Kafka Connect does.
func (s *Service) Routes() []rest.Route {
	routes := []rest.Route{
		{Method: http.MethodGet, Path: "/", Handle: s.root},
		{Method: http.MethodGet, Path: "/connectors", Handle: s.list, Query: []string{"expand"}},
		{Method: http.MethodPost, Path: "/connectors", Handle: s.create},
		{Method: http.MethodGet, Path: "/connectors/:connector", Handle: s.get},
		{Method: http.MethodPut, Path: "/connectors/:connector", Handle: s.put},
		{Method: http.MethodDelete, Path: "/connectors/:connector", Handle: s.remove, Query: []string{"force"}},
		{Method: http.MethodGet, Path: "/connectors/:connector/config", Handle: s.getConfig},
		{Method: http.MethodPut, Path: "/connectors/:connector/config", Handle: s.putConfig},
		{Method: http.MethodPatch, Path: "/connectors/:connector/config", Handle: s.patchConfig},
		{Method: http.MethodGet, Path: "/connectors/:connector/status", Handle: s.status},
		{Method: http.MethodGet, Path: "/connectors/:connector/tasks", Handle: s.tasks},
		{Method: http.MethodGet, Path: "/connectors/:connector/tasks/:task/status", Handle: s.taskStatus},
		{Method: http.MethodPost, Path: "/connectors/:connector/tasks/:task/restart", Handle: s.restartTask},
		{Method: http.MethodPost, Path: "/connectors/:connector/restart", Handle: s.restart, Query: []string{"includeTasks", "onlyFailed"}},
		{Method: http.MethodPut, Path: "/connectors/:connector/pause", Handle: s.wish(workers.StatePaused, http.StatusAccepted)},
		{Method: http.MethodPut, Path: "/connectors/:connector/resume", Handle: s.wish(workers.StateRunning, http.StatusAccepted)},
		{Method: http.MethodPut, Path: "/connectors/:connector/stop", Handle: s.wish(workers.StateStopped, http.StatusNoContent)},
		{Method: http.MethodGet, Path: "/connectors/:connector/topics", Handle: s.topics},
		{Method: http.MethodGet, Path: "/connectors/:connector/offsets", Handle: s.offsets},
		{Method: http.MethodDelete, Path: "/connectors/:connector/offsets", Handle: s.resetOffsets},
		{Method: http.MethodGet, Path: "/connector-plugins", Handle: s.plugins, Query: []string{"connectorsOnly"}},
		{Method: http.MethodGet, Path: "/connector-plugins/:plugin/config", Handle: s.pluginConfig},
		{Method: http.MethodPut, Path: "/connector-plugins/:plugin/config/validate", Handle: s.validate},
		{Method: http.MethodGet, Path: "/admin/loggers", Handle: s.loggers},
		{Method: http.MethodGet, Path: "/admin/loggers/:logger", Handle: s.logger},
	}
	for i := range routes {
		routes[i].Lenient = true
	}
	return routes
}

type rootInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Cluster string `json:"kafka_cluster_id"`
}

func (s *Service) root(context.Context, *rest.Request) (rest.Answer, error) {
	return rest.OK(rootInfo{protocol, "millrace-" + s.Version, s.Cluster})
}

// info is Connect's ConnectorInfo.
type info struct {
	Name   string            `json:"name"`
	Config map[string]string `json:"config"`
	Tasks  []taskID          `json:"tasks"`
	Type   string            `json:"type"`
}

type taskID struct {
	Connector string `json:"connector"`
	Task      int    `json:"task"`
}

func (s *Service) infoOf(name string, c *desired.Connector, st *state) info {
	i := info{Name: name, Config: s.shown(c.Def.Config), Tasks: []taskID{}, Type: c.Type()}
	for _, t := range st.Tasks {
		i.Tasks = append(i.Tasks, taskID{name, t.ID})
	}
	return i
}

func (s *Service) info(ctx context.Context, name string) (info, error) {
	c, err := s.Desired.Connector(ctx, name)
	if err != nil {
		return info{}, err
	}
	st, err := s.stateOf(ctx, name, &c)
	return s.infoOf(name, &c, &st), err
}

type expanded struct {
	Status *state `json:"status,omitempty"`
	Info   *info  `json:"info,omitempty"`
}

func (s *Service) list(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	all, err := s.Desired.Connectors(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	var status, infos bool
	for _, e := range r.Query["expand"] {
		status = status || e == "status"
		infos = infos || e == "info"
	}
	names := []string{}
	out := map[string]expanded{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		c := all[name]
		names = append(names, name)
		if !status && !infos {
			continue
		}
		st, err := s.stateOf(ctx, name, &c)
		if err != nil {
			return rest.Answer{}, err
		}
		var e expanded
		if status {
			e.Status = &st
		}
		if infos {
			i := s.infoOf(name, &c, &st)
			e.Info = &i
		}
		out[name] = e
	}
	if status || infos {
		return rest.OK(out)
	}
	return rest.OK(names)
}

// creation is the body of POST /connectors; what else is in it is ignored.
type creation struct {
	Name         string          `json:"name"`
	Config       json.RawMessage `json:"config"`
	InitialState string          `json:"initial_state"`
}

func (b *creation) read(r *rest.Request) (config map[string]string, state string, err error) {
	raw, err := r.Object()
	if err != nil {
		return nil, "", err
	}
	if err := rest.Lenient(raw, b); err != nil {
		return nil, "", err
	}
	if len(b.Config) == 0 {
		return nil, "", rest.Bad("config", "is required: the connector's configuration")
	}
	if config, err = rest.FlatConfig(b.Config); err != nil {
		return nil, "", err
	}
	switch state = strings.ToUpper(b.InitialState); state {
	case "", workers.StateRunning, workers.StatePaused, workers.StateStopped:
		return config, state, nil
	}
	return nil, "", rest.Bad("initial_state", "%q is not RUNNING, PAUSED or STOPPED", b.InitialState)
}

func (s *Service) create(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var body creation
	config, state, err := body.read(r)
	if err != nil {
		return rest.Answer{}, err
	}
	name := body.Name
	if name == "" {
		name = config["name"]
	}
	if name == "" {
		return rest.Answer{}, rest.Bad("name", "is required: the connector's name")
	}
	return s.store(ctx, name, config, state, true)
}

// put makes or replaces a connector from the body that creates one.
func (s *Service) put(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var body creation
	config, state, err := body.read(r)
	if err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["connector"]
	if body.Name != "" && body.Name != name {
		return rest.Answer{}, rest.Bad("name", "%q differs from the name in the path, %q", body.Name, name)
	}
	return s.store(ctx, name, config, state, false)
}

// store puts a config; fresh refuses to replace one.
func (s *Service) store(ctx context.Context, name string, config map[string]string, state string, fresh bool) (rest.Answer, error) {
	p, err := s.Desired.Begin(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	defer p.Close()
	if _, exists := p.Connectors[name]; exists && fresh {
		return rest.Answer{}, rest.Conflict("Connector %s already exists", name)
	}
	if old, ok := p.Connectors[name]; ok {
		keepHidden(config, old.Config)
	}
	action, err := p.PutConnector(ctx, name, config, state)
	if err != nil {
		return rest.Answer{}, err
	}
	if err := p.Commit(ctx); err != nil {
		return rest.Answer{}, err
	}
	i, err := s.info(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	a := rest.Answer{Status: http.StatusOK, Body: i}
	if action == desired.Created {
		a.Status = http.StatusCreated
		a.Header = map[string]string{"Location": "/connectors/" + url.PathEscape(name)}
	}
	return a, nil
}

func (s *Service) get(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	i, err := s.info(ctx, r.Params["connector"])
	return rest.Answer{Body: i}, err
}

func (s *Service) remove(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	force, err := r.Bool("force")
	if err != nil {
		return rest.Answer{}, err
	}
	err = s.plan(ctx, func(p *desired.Plan) error { return p.DeleteConnector(r.Params["connector"], force) })
	return rest.Answer{Status: http.StatusNoContent}, err
}

// plan makes one change.
func (s *Service) plan(ctx context.Context, do func(*desired.Plan) error) error {
	p, err := s.Desired.Begin(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := do(p); err != nil {
		return err
	}
	return p.Commit(ctx)
}
