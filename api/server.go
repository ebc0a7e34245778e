package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"millrace/api/rest"
)

// Handler serves the whole surface. It may be used before and beside Run.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serveHTTP) }

// serveHTTP takes a trailing slash off, as Kafka Connect does, and refuses what
// a browser sends on behalf of another site.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.Path; len(p) > 1 && strings.HasSuffix(p, "/") {
		u := *r.URL
		u.Path = strings.TrimSuffix(p, "/")
		u.RawPath = strings.TrimSuffix(u.RawPath, "/")
		clone := *r
		clone.URL = &u
		r = &clone
	}
	s.echo.ServeHTTP(w, r)
}

// Serve answers on ln until ctx ends, then lets requests under way finish for
// up to ten seconds. It closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve http on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	s.stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		srv.Close() //nolint:errcheck // what is left is cut off
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stop ends all streams and waiting reads, once.
func (s *Server) stop() { s.stopOnce.Do(func() { close(s.stopping) }) }

// untilStop returns a ctx that also ends when the server stops: for what may
// wait long.
func (s *Server) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (s *Server) bind(routes []rest.Route) {
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.HTTPErrorHandler = func(err error, c echo.Context) { s.writeError(c, err) }
	for _, route := range routes {
		s.echo.Add(route.Method, route.Path, s.handler(route))
	}
	s.routes = routes
}

// Routes lists what the server answers, by path, for documentation and tests.
func (s *Server) Routes() []rest.Route { return slices.Clone(s.routes) }

func (s *Server) handler(route rest.Route) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		err := s.serve(c, route)
		if err != nil {
			s.writeError(c, err)
		}
		s.metrics.observe(route, c.Response().Status, time.Since(start))
		return nil
	}
}

// serve runs one request: who asks, how much may be read, what is wanted.
func (s *Server) serve(c echo.Context, route rest.Route) (err error) {
	r, w := c.Request(), c.Response()
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // it is compared as net/http does
				panic(p)
			}
			s.log.Error("handler panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = rest.Fail(http.StatusInternalServerError, "", "a fault in the server: see its log")
		}
	}()
	if err := s.admit(r, route); err != nil {
		return err
	}
	req := &rest.Request{Params: make(map[string]string, 2), Header: r.Header, HTTP: r}
	for _, name := range c.ParamNames() {
		v, err := url.PathUnescape(c.Param(name))
		if err != nil {
			return rest.Bad(name, "%v", err)
		}
		req.Params[name] = v
	}
	if req.Query, err = query(r, route); err != nil {
		return err
	}
	limit := int64(maxBody)
	if route.Events {
		limit = s.maxEvents
	}
	body, release, err := s.readBody(w, r, limit)
	if err != nil {
		return err
	}
	defer release()
	if route.Events { // events are parsed from a copy
		if !s.bodies.take(int64(len(body))) {
			return s.fullOfBodies()
		}
		defer s.bodies.give(int64(len(body)))
	}
	req.Body = body

	a, err := route.Handle(r.Context(), req)
	if err != nil {
		return err
	}
	return answer(r.Context(), w, a)
}

func (s *Server) admit(r *http.Request, route rest.Route) error {
	if route.Open {
		return nil
	}
	if s.token != [sha256.Size]byte{} {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		sum := sha256.Sum256([]byte(given))
		if !ok || subtle.ConstantTimeCompare(sum[:], s.token[:]) != 1 {
			return rest.Fail(http.StatusUnauthorized, "Authorization", "send the server's token: Authorization: Bearer …")
		}
	}
	if err := s.origin.Check(r); err != nil {
		return rest.Fail(http.StatusForbidden, "Origin", "requests that another site's page sends are refused")
	}
	return nil
}

func query(r *http.Request, route rest.Route) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, rest.Bad("query", "%v", err)
	}
	if route.Lenient {
		return q, nil
	}
	for name, values := range q {
		if !slices.Contains(route.Query, name) {
			return nil, rest.Bad(name, "is no query parameter here%s", rest.Suggest(name, route.Query))
		}
		if len(values) > 1 {
			return nil, rest.Bad(name, "is given %d times: give it once", len(values))
		}
	}
	return q, nil
}

func answer(ctx context.Context, w *echo.Response, a rest.Answer) error {
	if a.Stream != nil {
		return a.Stream(ctx, w)
	}
	h := w.Header()
	for k, v := range a.Header {
		h.Set(k, v)
	}
	status := a.Status
	if status == 0 {
		status = http.StatusOK
	}
	body := a.Raw
	if body != nil {
		h.Set("Content-Type", a.Type)
	} else if a.Body != nil {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(a.Body); err != nil {
			return err
		}
		body = b.Bytes()
		h.Set("Content-Type", "application/json")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeDeadline)); err == nil {
		defer http.NewResponseController(w).SetWriteDeadline(time.Time{}) //nolint:errcheck // it worked a moment ago
	}
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // the client is gone: nobody to tell
	return nil
}

// writeDeadline bounds one answer, and one piece of a stream.
const writeDeadline = time.Minute
