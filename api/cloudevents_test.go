package api

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

// scenario is one of the feature file, with its example put in.
type scenario struct {
	name       string
	request    string
	attributes map[string]string
	data       string
}

// readFeature reads the little of Gherkin that the conformance features use.
func readFeature(t *testing.T, file string) (out []scenario) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "Scenario Outline:")
	for block := range strings.SplitSeq(rest, "Scenario Outline:") {
		body, examples, ok := strings.Cut(block, "Examples:")
		if !ok {
			t.Fatalf("%s: a scenario has no examples", file)
		}
		rows := tableRows(examples)
		for _, row := range rows[1:] {
			text := body
			for i, column := range rows[0] {
				text = strings.ReplaceAll(text, "<"+column+">", row[i])
			}
			out = append(out, readScenario(t, text))
		}
	}
	return out
}

func tableRows(text string) (rows [][]string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			row = append(row, strings.TrimSpace(cell))
		}
		rows = append(rows, row)
	}
	return rows
}

func readScenario(t *testing.T, text string) scenario {
	t.Helper()
	name, _, _ := strings.Cut(text, "\n")
	parts := strings.Split(text, `"""`)
	if len(parts) != 5 {
		t.Fatalf("scenario %s: two texts in quotes are wanted", name)
	}
	s := scenario{name: strings.TrimSpace(name), request: dedent(parts[1]), data: dedent(parts[3]), attributes: map[string]string{}}
	for _, row := range tableRows(parts[2])[1:] {
		s.attributes[row[0]] = row[1]
	}
	return s
}

// dedent takes the indent of the first line off all lines.
func dedent(text string) string {
	text = strings.TrimLeft(text, "\n")
	indent := len(text) - len(strings.TrimLeft(text, " "))
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(line[min(indent, len(line)-len(strings.TrimLeft(line, " "))):])
	}
	return b.String()
}

// TestConformance runs the HTTP binding's conformance feature: what was sent is
// read back with the same attributes and data.
func TestConformance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.must(http.StatusCreated, http.MethodPut, "/topics/feature", "")
	scenarios := readFeature(t, "testdata/cloudevents/http-protocol-binding.feature")
	if len(scenarios) != 4 {
		t.Fatalf("%d scenarios, 4 are in the file", len(scenarios))
	}
	for i, s := range scenarios {
		_, rest, _ := strings.Cut(s.request, "\n") // the request line goes elsewhere
		r := bufio.NewReader(strings.NewReader(rest))
		header, err := textproto.NewReader(r).ReadMIMEHeader()
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		header.Del("Content-Length") // of the body with other line ends
		var body strings.Builder
		if _, err := r.WriteTo(&body); err != nil {
			t.Fatal(err)
		}
		rec := w.do(http.MethodPost, "/topics/feature/events", http.Header(header), body.String())
		if rec.Code != http.StatusOK {
			t.Fatalf("%s: status %d: %s", s.name, rec.Code, rec.Body)
		}
		var back []map[string]any
		got := w.must(http.StatusOK, http.MethodGet, "/topics/feature/events?from="+string(rune('0'+i)), "")
		if err := json.Unmarshal([]byte(got), &back); err != nil || len(back) != 1 {
			t.Fatalf("%s: %v: %s", s.name, err, got)
		}
		for name, want := range s.attributes {
			if back[0][name] != want {
				t.Errorf("%s: %s is %v, want %q", s.name, name, back[0][name], want)
			}
		}
		var want any
		if err := json.Unmarshal([]byte(s.data), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back[0]["data"], want) {
			t.Errorf("%s: data is %v, want %v", s.name, back[0]["data"], want)
		}
	}
}

// TestSDK sends with the CloudEvents SDK in all modes and reads back with it.
func TestSDK(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.must(http.StatusCreated, http.MethodPut, "/topics/sdk", "")
	node := httptest.NewServer(w.server.Handler())
	defer node.Close()

	sent := []cloudevents.Event{sdkEvent(t, "json", "application/json", map[string]any{"n": 1.5, "text": "ä€"})}
	sent = append(sent, sdkEvent(t, "text", "text/plain", "plain ä"))
	sent = append(sent, sdkEvent(t, "bytes", "application/octet-stream", []byte{0, 1, 0xff}))
	bare := cloudevents.New()
	bare.SetID("bare")
	bare.SetSource("/sdk")
	bare.SetType("none")
	bare.SetSubject(`100 % "sure" ü`)
	sent = append(sent, bare)

	post := func(r *http.Request) {
		t.Helper()
		res, err := node.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(res.Body) // shown with the failure
			t.Fatalf("status %d: %s", res.StatusCode, body)
		}
	}
	request := func() *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, node.URL+"/topics/sdk/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for i := range sent {
		r := request()
		if err := cehttp.WriteRequest(binding.WithForceBinary(t.Context()), binding.ToMessage(&sent[i]), r); err != nil {
			t.Fatal(err)
		}
		post(r)
		r = request()
		if err := cehttp.WriteRequest(binding.WithForceStructured(t.Context()), binding.ToMessage(&sent[i]), r); err != nil {
			t.Fatal(err)
		}
		post(r)
	}
	batch, err := cehttp.NewHTTPRequestFromEvents(t.Context(), node.URL+"/topics/sdk/events", sent)
	if err != nil {
		t.Fatal(err)
	}
	post(batch)

	got := w.must(http.StatusOK, http.MethodGet, "/topics/sdk/events", "")
	var back []cloudevents.Event
	if err := json.Unmarshal([]byte(got), &back); err != nil {
		t.Fatal(err)
	}
	var want []cloudevents.Event
	for i := range sent {
		want = append(want, sent[i], sent[i])
	}
	want = append(want, sent...)
	if len(back) != len(want) {
		t.Fatalf("%d events came back, want %d", len(back), len(want))
	}
	for i := range want {
		sameEvent(t, want[i], back[i])
	}
}

func sdkEvent(t *testing.T, id, contentType string, data any) cloudevents.Event {
	t.Helper()
	e := cloudevents.New()
	e.SetID(id)
	e.SetSource("/sdk")
	e.SetType("test." + id)
	e.SetExtension("partitionkey", "k")
	e.SetExtension("trace", "x y%z")
	if err := e.SetData(contentType, data); err != nil {
		t.Fatal(err)
	}
	return e
}

func sameEvent(t *testing.T, want, got cloudevents.Event) {
	t.Helper()
	type shown struct {
		ID, Source, Type, Subject, ContentType string
		Ext                                    map[string]any
	}
	show := func(e cloudevents.Event) shown {
		ext := map[string]any{}
		for k, v := range e.Extensions() {
			if k != "mrqueue" && k != "mroffset" && k != "mrorigin" {
				ext[k] = v
			}
		}
		return shown{e.ID(), e.Source(), e.Type(), e.Subject(), e.DataContentType(), ext}
	}
	if w, g := show(want), show(got); !reflect.DeepEqual(w, g) {
		t.Errorf("event %s came back as %+v, want %+v", want.ID(), g, w)
	}
	if want.DataContentType() == "application/json" {
		var w, g any
		if json.Unmarshal(want.Data(), &w) != nil || json.Unmarshal(got.Data(), &g) != nil || !reflect.DeepEqual(w, g) {
			t.Errorf("event %s: data came back as %s, want %s", want.ID(), got.Data(), want.Data())
		}
		return
	}
	if string(want.Data()) != string(got.Data()) {
		t.Errorf("event %s: data came back as %q, want %q", want.ID(), got.Data(), want.Data())
	}
}
