package api

import (
	"net/http"
	"strings"
	"testing"
)

// TestWrittenOutSecretsAreNotShown: a secret that was sent as itself comes back
// in no answer, and a config that is read, changed and sent again keeps it.
func TestWrittenOutSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	const config = `{"connector.class":"elasticsearch-sink","topics":"t","connection.url":"http://127.0.0.1:9","connection.username":"u","connection.password":%s}`
	put := func(password string) {
		t.Helper()
		if res := w.do(http.MethodPut, "/connectors/es/config", nil, strings.Replace(config, "%s", password, 1)); res.Code/100 != 2 {
			t.Fatalf("%d: %s", res.Code, res.Body)
		} else if strings.Contains(res.Body.String(), "literal") {
			t.Fatalf("shown: %s", res.Body)
		}
	}
	put(`"literal"`)
	rule := `{"from":["in"],"to":[{"http":{"url":"http://127.0.0.1:9","allow.private":true,"auth.token":"literal"}}]}`
	if res := w.do(http.MethodPut, "/rules/r", nil, rule); res.Code/100 != 2 || strings.Contains(res.Body.String(), "literal") {
		t.Fatalf("%d: %s", res.Code, res.Body)
	}
	for _, path := range []string{"/connectors/es", "/connectors/es/config", "/connectors/es/tasks", "/connectors?expand=info", "/rules", "/rules/r"} {
		res := w.do(http.MethodGet, path, nil, "")
		if strings.Contains(res.Body.String(), "literal") {
			t.Errorf("GET %s shows it: %s", path, res.Body)
		}
	}
	put(`"[hidden]"`)
	v, err := w.server.desired.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Connectors["es"].Config["connection.password"]; got != "literal" {
		t.Errorf("the password became %q", got)
	}
	put(`"${env:ES_PASSWORD}"`)
	if res := w.do(http.MethodGet, "/connectors/es/config", nil, ""); !strings.Contains(res.Body.String(), "${env:ES_PASSWORD}") {
		t.Errorf("a reference is hidden: %s", res.Body)
	}
}
