package api

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestEveryPlugin asks for the keys of every built-in class and validates an empty
// config, which names what is required and is refused when it is put.
func TestEveryPlugin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	conform := newConformance(t)
	var classes []struct{ Class, Type string }
	if err := json.Unmarshal([]byte(w.must(http.StatusOK, http.MethodGet, "/connector-plugins", "")), &classes); err != nil {
		t.Fatal(err)
	}
	if len(classes) < 10 {
		t.Fatalf("only %d classes", len(classes))
	}
	for _, c := range classes {
		body := `{"connector.class":"` + c.Class + `","no.such.key":"1"}`
		for _, ask := range []struct{ method, target, body string }{
			{http.MethodGet, "/connector-plugins/" + c.Class + "/config", ""},
			{http.MethodPut, "/connector-plugins/" + c.Class + "/config/validate", body},
		} {
			rec := w.do(ask.method, ask.target, nil, ask.body)
			if rec.Code != http.StatusOK {
				t.Errorf("%s %s: %d %s", ask.method, ask.target, rec.Code, rec.Body)
			} else if d := conform.check(ask.method, ask.target, rec); d != "" {
				t.Errorf("%s %s: %s", ask.method, ask.target, d)
			}
		}
		var v struct {
			Errors int `json:"error_count"`
		}
		answer := w.must(http.StatusOK, http.MethodPut, "/connector-plugins/"+c.Class+"/config/validate", body)
		if err := json.Unmarshal([]byte(answer), &v); err != nil || v.Errors == 0 {
			t.Errorf("%s: an unknown key is no error: %v", c.Class, err)
		}
		if rec := w.do(http.MethodPut, "/connectors/x/config", nil, body); rec.Code != http.StatusBadRequest {
			t.Errorf("%s: an unknown key was taken: %d", c.Class, rec.Code)
		}
	}
}
