package api

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"millrace/api/connect"
	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/bus"
	"millrace/connectors"
	"millrace/workers"
)

// Options of New. Only Client is needed.
type Options struct {
	Client  bus.Client
	Plugins []connectors.Plugin
	// Node says who answers.
	Node Node
	// Token, when set, must come with every request but health checks and webhooks.
	Token string
	// MaxBody bounds the body of a request with events or of a webhook, in bytes;
	// 0 means 64 MiB. MaxBodies bounds all bodies held at one time; 0 means four
	// times MaxBody. Invariant 10.
	MaxBody, MaxBodies int64
	Logger             *slog.Logger     // nil: nowhere
	Now                func() time.Time // nil: time.Now
	// Health is the node's own check for /readyz and /health; nil: none.
	Health func(context.Context) error
	// Stats are values whose numbers /metrics shows, by prefix: "bus" gives
	// millrace_bus_…. Tasks are the tasks that run here; nil: none.
	Stats map[string]func() any
	Tasks func() []workers.TaskStats
}

// Node says who answers. Cluster names the log; ID is the worker id; DataDir
// is where connectors that run here keep their stores.
type Node struct {
	Version, Cluster, ID, DataDir string
}

// Server is the HTTP surface of one node.
type Server struct {
	client    bus.Client
	desired   *desired.Store
	plugins   []connectors.Plugin
	dataDir   string
	log       *slog.Logger
	now       func() time.Time
	check     func(context.Context) error
	token     [sha256.Size]byte // of the token; zero = none
	maxEvents int64
	heartbeat time.Duration
	bodies    budget
	answers   budget // what readers have been read but have not taken yet
	receivers receivers
	metrics   *metrics
	origin    *http.CrossOriginProtection
	echo      *echo.Echo
	routes    []rest.Route
	stopping  chan struct{} // closed once streams and waits shall end
	stopOnce  sync.Once
}

const (
	defaultMaxBody = 64 << 20
	pausedRetry    = 5 * time.Second
)

// New makes a server. It starts nothing; see Run and Serve.
func New(o Options) (*Server, error) {
	if o.Client == nil {
		return nil, errors.New("api: Client is required")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.MaxBodies == 0 {
		o.MaxBodies = 4 * o.MaxBody
	}
	// The largest body and the copy that it is parsed from must fit.
	o.MaxBodies = max(o.MaxBodies, 2*(o.MaxBody+1))
	s := &Server{
		client: o.Client, plugins: o.Plugins, dataDir: o.Node.DataDir, log: o.Logger, now: o.Now, check: o.Health,
		maxEvents: o.MaxBody, heartbeat: heartbeat, bodies: budget{most: o.MaxBodies}, answers: budget{most: o.MaxBodies},
		receivers: receivers{byName: map[string]receiver{}}, origin: http.NewCrossOriginProtection(),
		echo: echo.New(), stopping: make(chan struct{}),
	}
	if o.Token != "" {
		s.token = sha256.Sum256([]byte(o.Token))
	}
	s.desired = desired.New(desired.Options{Client: o.Client, Plugins: o.Plugins, Now: o.Now, Logger: o.Logger})
	var err error
	if s.metrics, err = newMetrics(&o, func() float64 { return float64(s.bodies.used.Load()) }); err != nil {
		return nil, err
	}
	kafka := &connect.Service{
		Client: o.Client, Desired: s.desired, Logger: o.Logger,
		Version: o.Node.Version, Cluster: o.Node.Cluster, WorkerID: o.Node.ID,
	}
	var routes []rest.Route
	for _, list := range [][]rest.Route{
		s.healthRoutes(), s.topicRoutes(), s.eventRoutes(), s.groupRoutes(), s.ruleRoutes(), s.connectionRoutes(),
		kafka.Routes(), s.webhookRoutes(), s.deadLetterRoutes(), s.searchRoutes(), s.pipelineRoutes(),
	} {
		routes = append(routes, list...)
	}
	s.bind(routes)
	return s, nil
}

// Run follows the tables that the server shows, until ctx ends; then all streams
// end. The server answers without it too, reading the tables for each request.
func (s *Server) Run(ctx context.Context) error {
	defer s.stop()
	return s.desired.Run(ctx)
}
