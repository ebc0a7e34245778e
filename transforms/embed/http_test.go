package embed

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/bus/event"
	"millrace/connectors/guard"
	"millrace/schemas/spec"
)

// endpoint is a server that speaks /v1/embeddings: a text's vector is its length
// and 1. Texts with "poison" are refused.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
	keys     []string
	answer   func(n int, w http.ResponseWriter) bool // of request n, from 0; false = the usual
}

func serve(t *testing.T, answer func(n int, w http.ResponseWriter) bool) *endpoint {
	t.Helper()
	e := &endpoint{answer: answer}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in request
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/embeddings" || r.Method != http.MethodPost {
			t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		}
		e.mu.Lock()
		n := len(e.requests)
		e.requests, e.keys = append(e.requests, in), append(e.keys, r.Header.Get("Authorization"))
		e.mu.Unlock()
		if answer != nil && answer(n, w) {
			return
		}
		var data []map[string]any
		for i, text := range slices.Backward(in.Input) { // out of order: index counts
			if strings.Contains(text, "poison") {
				http.Error(w, `{"error":"too long"}`, http.StatusBadRequest)
				return
			}
			data = append(data, map[string]any{"index": i, "embedding": []float64{float64(len(text)), 1}})
		}
		if err := json.NewEncoder(w).Encode(map[string]any{"data": data}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) sizes() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []int
	for _, r := range e.requests {
		out = append(out, len(r.Input))
	}
	return out
}

func (e *endpoint) embedder(t *testing.T, c Config) Embedder {
	t.Helper()
	c.URL, c.Model, c.AllowPrivate = e.URL+"/v1", "m", true
	em, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return em
}

func TestHTTP(t *testing.T) {
	t.Setenv("MILLRACE_TEST_KEY", "sk-secret")
	e := serve(t, nil)
	em := e.embedder(t, Config{Batch: 2, Dimensions: 2, APIKey: spec.Secret("${env:MILLRACE_TEST_KEY}")})
	got, err := em.Embed(t.Context(), []string{"a", "bb", "", "a", "dddd"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{1, 2, 0, 1, 4} {
		if want == 0 {
			if got[i].Err == nil {
				t.Error("nothing was embedded")
			}
		} else if got[i].Err != nil || got[i].Values[0] != want {
			t.Errorf("text %d: %v", i, got[i])
		}
	}
	if sizes := e.sizes(); !slices.Equal(sizes, []int{2, 1}) { // equal texts once, empty ones never
		t.Errorf("requests of %v", sizes)
	}
	if e.requests[0].Model != "m" || e.requests[0].Dimensions != 2 || e.keys[0] != "Bearer sk-secret" {
		t.Errorf("%+v %q", e.requests[0], e.keys)
	}
	if em.Info() != (Info{Model: "m", Dims: 2, Kind: "http"}) {
		t.Errorf("%+v", em.Info())
	}
}

func TestHTTPPoison(t *testing.T) {
	t.Parallel()
	e := serve(t, nil)
	texts := []string{"1", "22", "333", "4444 poison", "55555", "666666", "7777777", "88888888"}
	got, err := e.embedder(t, Config{}).Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if bad := strings.Contains(texts[i], "poison"); bad != (got[i].Err != nil) || !bad && got[i].Values[0] != float32(len(texts[i])) {
			t.Errorf("%s: %v", texts[i], got[i])
		}
	}
	if n := len(e.sizes()); n > 7 {
		t.Errorf("%d requests for one bad text of 8", n)
	}
	for i := range texts {
		texts[i] = fmt.Sprint("poison ", i)
	}
	if got, err := e.embedder(t, Config{}).Embed(t.Context(), texts); err == nil || !strings.Contains(err.Error(), "refuses every text") {
		t.Errorf("where all are refused it is not the texts: %v %v", got, err)
	}
}

func TestHTTPFails(t *testing.T) {
	t.Parallel()
	status := func(code int, header, body string) func(int, http.ResponseWriter) bool {
		return func(_ int, w http.ResponseWriter) bool {
			w.Header().Set("Retry-After", header)
			http.Error(w, body, code)
			return true
		}
	}
	said := func(body string) func(int, http.ResponseWriter) bool {
		return func(_ int, w http.ResponseWriter) bool {
			fmt.Fprint(w, body)
			return true
		}
	}
	for name, c := range map[string]struct {
		answer func(int, http.ResponseWriter) bool
		want   string
		after  time.Duration
	}{
		"too many":     {status(429, "7", "slow down"), "429 Too Many Requests: slow down", 7 * time.Second},
		"down":         {status(503, "", strings.Repeat("x", 9000)), "503", 0},
		"far too long": {status(503, "1e300", "x"), "503", time.Hour},
		"no key":       {status(401, "", "bad key"), "401 Unauthorized: bad key", 0},
		"moved":        {status(307, "", ""), "307", 0},
		"no JSON":      {said("<html>"), "the endpoint's answer", 0},
		"too few":      {said(`{"data":[{"index":0,"embedding":[1]}]}`), "1 embeddings for 2 texts", 0},
		"twice":        {said(`{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`), "index 0 is there twice", 0},
		"lengths":      {said(`{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`), "2 dimensions, not 1", 0},
		"zero":         {said(`{"data":[{"index":0,"embedding":[0]},{"index":1,"embedding":[1]}]}`), "zero or not finite", 0},
		"infinite":     {said(`{"data":[{"index":0,"embedding":"AACAfw=="},{"index":1,"embedding":[1]}]}`), "zero or not finite", 0},
	} {
		got, err := serve(t, c.answer).embedder(t, Config{}).Embed(t.Context(), []string{"a", "b"})
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.Contains(err.Error(), c.want) || e.After != c.after || len(err.Error()) > 500 {
			t.Errorf("%s: %v %v, after %v", name, got, err, e)
		}
	}
	em, err := New(Config{URL: "http://127.0.0.1:1/v1", Model: "m", AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := em.Embed(t.Context(), []string{"a"}); err == nil {
		t.Error("nobody answered")
	} else if _, ok := errors.AsType[*Error](err); !ok {
		t.Errorf("%T %v", err, err)
	}
}

// TestHTTPKeeps fails the second of three requests once: what the first one gave
// is not asked for again.
func TestHTTPKeeps(t *testing.T) {
	t.Parallel()
	e := serve(t, func(n int, w http.ResponseWriter) bool {
		if n == 1 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}
		return n == 1
	})
	em := e.embedder(t, Config{Batch: 1})
	texts := []string{"a", "bb", "ccc"}
	if _, err := em.Embed(t.Context(), texts); err == nil {
		t.Fatal("it did not fail")
	}
	got, err := em.Embed(t.Context(), texts)
	if err != nil || got[0].Values[0] != 1 || got[2].Values[0] != 3 {
		t.Errorf("%v %v", got, err)
	}
	if n := len(e.sizes()); n != 4 {
		t.Errorf("%d requests, not 4", n)
	}
}

func TestHTTPBase64(t *testing.T) {
	t.Parallel()
	raw := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5)), math.Float32bits(-2))
	e := serve(t, func(_ int, w http.ResponseWriter) bool {
		fmt.Fprintf(w, `{"data":[{"index":0,"embedding":%q}]}`, base64.StdEncoding.EncodeToString(raw))
		return true
	})
	got, err := e.embedder(t, Config{}).Embed(t.Context(), []string{"a"})
	if err != nil || !slices.Equal(got[0].Values, []float32{0.5, -2}) {
		t.Errorf("%v %v", got, err)
	}
}

// TestHTTPSecret looks for the key wherever an error is shown.
func TestHTTPSecret(t *testing.T) {
	t.Setenv("MILLRACE_TEST_KEY", "sk-secret")
	e := serve(t, func(_ int, w http.ResponseWriter) bool {
		http.Error(w, "incorrect key: sk-secret", http.StatusUnauthorized)
		return true
	})
	_, err := e.embedder(t, Config{APIKey: "${env:MILLRACE_TEST_KEY}"}).Embed(t.Context(), []string{"a"})
	if err == nil || strings.Contains(err.Error(), "sk-secret") || !strings.Contains(err.Error(), "[hidden]") {
		t.Error(err)
	}
	_, err = e.embedder(t, Config{APIKey: "${env:MILLRACE_TEST_NO_KEY}"}).Embed(t.Context(), []string{"a"})
	if err == nil || !strings.Contains(err.Error(), "apiKey: ${env:MILLRACE_TEST_NO_KEY}: the environment variable is not set") {
		t.Error(err)
	}
}

func TestHTTPPrivate(t *testing.T) {
	t.Parallel()
	e := serve(t, func(int, http.ResponseWriter) bool { t.Error("a private address was reached"); return false })
	em, err := New(Config{URL: e.URL + "/v1", Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := em.Embed(t.Context(), []string{"a"}); !errors.Is(err, guard.ErrPrivate) || !strings.Contains(err.Error(), "allowPrivate") {
		t.Error(err)
	}
}

func TestHTTPCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	e := serve(t, func(int, http.ResponseWriter) bool { cancel(); return false })
	for range 2 {
		if _, err := e.embedder(t, Config{Batch: 1}).Embed(ctx, []string{"a", "b", "c"}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"url: is required for the model m":      {Model: "m"},
		"apiKey: goes with url":                 {APIKey: "x"},
		"dimensions: 3 is too few":              {Dimensions: 3},
		"model: is required with url":           {URL: "https://example.com/v1"},
		"url: must be an http or https URL":     {URL: "ftp://example.com", Model: "m"},
		"url: must not hold a user or password": {URL: "https://u:p@example.com", Model: "m"},
		"ngrams: is for lexical-hash-v1":        {URL: "https://example.com", Model: "m", NGrams: true},
	} {
		if _, err := New(c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, not %s", c, err, want)
		}
	}
}

// TestStep sends the chunks of a batch in one request.
func TestStep(t *testing.T) {
	t.Parallel()
	e := serve(t, nil)
	st := NewStep(e.embedder(t, Config{}))
	one := func(data string) event.Event { return event.Event{ID: "1", Data: []byte(data)} }
	in := []event.Event{
		one(`{"text":"abc","title":"T","titlePath":["A","B"]}`),
		{ID: "gone"},
		one(`{"text":"","seq":0,"total":0}`),
		one(`{"text":"poison"}`),
		one(`{"x":1}`),
		one(` {"text":"x","embedding":[9],"embedder":{"model":"old"}} `),
		one(`not JSON`),
		{ID: "2", ContentType: "text/plain", Data: []byte("plain")},
	}
	before := fmt.Sprintf("%+v", in)
	out, err := st.Apply(t.Context(), in)
	if err != nil || len(out) != len(in) {
		t.Fatalf("%v %v", out, err)
	}
	for i, want := range []string{
		`{"text":"abc","title":"T","titlePath":["A","B"],"embedding":[12,1],"embedder":{"model":"m","dims":2,"kind":"http"}}`,
		``, `{"text":"","seq":0,"total":0}`, `error: the endpoint answered 400`, `error: data.text is not there`,
		`{"text":"x","embedding":[1,1],"embedder":{"model":"m","dims":2,"kind":"http"}}`, `error: data is no chunk`, `error: data is not JSON`,
	} {
		if message, ok := strings.CutPrefix(want, "error: "); ok {
			if out[i].Err == nil || !strings.HasPrefix(out[i].Err.Error(), message) {
				t.Errorf("event %d: %v, not %s", i, out[i].Err, message)
			}
		} else if out[i].Err != nil || string(out[i].Event.Data) != want {
			t.Errorf("event %d: %v %s", i, out[i].Err, out[i].Event.Data)
		}
	}
	if e.sizes()[0] != 3 {
		t.Errorf("requests of %v", e.sizes())
	}
	if fmt.Sprintf("%+v", in) != before {
		t.Error("the input was changed")
	}
}
