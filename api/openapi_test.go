package api

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// document loads openapi.yaml and checks that it is valid, its examples included.
func document(tb testing.TB) *openapi3.T {
	tb.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi)
	if err != nil {
		tb.Fatal(err)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
		tb.Fatal(err)
	}
	return doc
}

var parameter = regexp.MustCompile(`:([a-z]+)`)

// notDocumented are routes that refuse by name until what they are for exists.
func notDocumented(path string) bool {
	for _, verb := range []string{"receive", "ack", "nack", "extend"} {
		if path == "/groups/:group/"+verb {
			return true
		}
	}
	return false
}

// TestOpenAPI holds the description against the routes: each must be in the
// other, with the same query parameters.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	doc := document(t)
	w := newWorld(t, Options{})
	routes := map[string]bool{}
	for _, r := range w.server.Routes() {
		if notDocumented(r.Path) {
			continue
		}
		path := parameter.ReplaceAllString(r.Path, "{$1}")
		routes[r.Method+" "+path] = true
		item := doc.Paths.Value(path)
		if item == nil || item.GetOperation(r.Method) == nil {
			t.Errorf("%s %s is not in openapi.yaml", r.Method, path)
			continue
		}
		op := item.GetOperation(r.Method)
		if r.Open != (op.Security != nil && len(*op.Security) == 0) {
			t.Errorf("%s %s: openapi.yaml and the route differ on whether a token is asked for", r.Method, path)
		}
		var documented []string
		for _, p := range append(slices.Clone(item.Parameters), op.Parameters...) {
			if p.Value.In == "query" {
				documented = append(documented, p.Value.Name)
			}
		}
		want := slices.Sorted(slices.Values(r.Query))
		if slices.Sort(documented); !slices.Equal(documented, want) {
			t.Errorf("%s %s: openapi.yaml has query parameters %v, the route %v", r.Method, path, documented, want)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if !routes[method+" "+path] {
				t.Errorf("%s %s is in openapi.yaml but there is no such route", method, path)
			}
		}
	}
}

// conformance checks answers against openapi.yaml.
type conformance struct{ router routers.Router }

func newConformance(tb testing.TB) *conformance {
	tb.Helper()
	doc := document(tb)
	doc.Servers = nil // any host
	router, err := legacy.NewRouter(doc)
	if err != nil {
		tb.Fatal(err)
	}
	return &conformance{router}
}

// check returns what is wrong with an answer, "" if nothing or if there is no such
// route.
func (c *conformance) check(method, target string, rec *httptest.ResponseRecorder) string {
	r := httptest.NewRequest(method, target, http.NoBody)
	r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
	if r.URL.Path == "" {
		r.URL.Path = "/"
	}
	route, params, err := c.router.FindRoute(r)
	if err != nil {
		return ""
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 rec.Code, Header: rec.Header(), Body: io.NopCloser(bytes.NewReader(rec.Body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
	if err != nil {
		return err.Error()
	}
	return ""
}
