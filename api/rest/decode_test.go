package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"millrace/bus"
)

type part struct {
	Name string       `json:"name"`
	Wait bus.Duration `json:"wait"`
}

type whole struct {
	N     int             `json:"n"`
	On    bool            `json:"on"`
	Parts []part          `json:"parts"`
	By    map[string]part `json:"by"`
	Any   json.RawMessage `json:"any"`
	One   *part           `json:"one"`
}

// TestStrict: each fault is told with the place it stands at.
func TestStrict(t *testing.T) {
	t.Parallel()
	for doc, field := range map[string]string{
		`{}`: "-",
		`{"n": 1, "on": true, "parts": [{"name": "a", "wait": "5s"}], "by": {"x": {}}, "any": {"free": 1}, "one": null}`: "-",
		`{"m": 1}`:                           "m",
		`{"N": 1}`:                           "N", // names are told apart by case
		`{"n": "1"}`:                         "n",
		`{"n": 1.5}`:                         "n",
		`{"n": 99999999999999999999}`:        "n",
		`{"n": null, "parts": [null]}`:       "-",
		`null`:                               "",
		`{"on": 1}`:                          "on",
		`{"parts": {}}`:                      "parts",
		`{"parts": [{"name": "a"}, 3]}`:      "parts[1]",
		`{"parts": [{"nam": "a"}]}`:          "parts[0].nam",
		`{"parts": [{"wait": "long"}]}`:      "parts[0].wait",
		`{"by": {"x": {"name": ["a"]}}}`:     "by.x.name",
		`{"by": []}`:                         "by",
		`{"one": {"name": 1}}`:               "one.name",
		`[]`:                                 "",
		`{`:                                  "body",
		``:                                   "body",
		`{} x`:                               "body",
		`{"n": 01}`:                          "body",
		"{\"n\": \"\xff\"":                   "body",
		`{"parts": [{"name": "a", "x": 1}]}`: "parts[0].x",
	} {
		var w whole
		err := Strict("", []byte(doc), &w)
		var re *Error
		switch {
		case field == "-":
			if err != nil {
				t.Errorf("%s: %v", doc, err)
			}
		case !errors.As(err, &re) || re.Status != http.StatusBadRequest || re.Field != field:
			t.Errorf("%s: %#v, want field %q", doc, err, field)
		}
	}
}

// TestAt puts places before fields.
func TestAt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, field, want string }{
		{"resources[0].spec", "queues", "resources[0].spec.queues"},
		{"events[2]", "", "events[2]"},
		{"", "queues", "queues"},
		{"events", "[3].id", "events[3].id"},
	} {
		var re *Error
		if err := At(c.path, Bad(c.field, "is wrong")); !errors.As(err, &re) || re.Field != c.want || re.Msg != c.want+": is wrong" {
			t.Errorf("%s + %s: %v", c.path, c.field, err)
		}
	}
	if err := At("x", http.ErrNoCookie); !errors.Is(err, http.ErrNoCookie) {
		t.Errorf("an error without a field became %v", err)
	}
}
