package chunk

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"millrace/bus/event"
	"millrace/schemas/spec"
)

func apply(t *testing.T, c Config, e event.Event) []data {
	t.Helper()
	st, err := NewStep(c)
	if err != nil {
		t.Fatal(err)
	}
	events, err := st.Apply(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]data, len(events))
	for i, made := range events {
		if err := json.Unmarshal(made.Data, &out[i]); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%s/%d", e.ID, i); made.ID != want || made.Key != out[i].Document || made.ContentType != "application/json" || made.Source != e.Source {
			t.Errorf("chunk %d: %+v", i, made)
		}
		if out[i].Seq != i || out[i].Total != len(events) && out[i].Total != 0 {
			t.Errorf("chunk %d is number %d of %d", i, out[i].Seq, out[i].Total)
		}
	}
	return out
}

func TestStep(t *testing.T) {
	t.Parallel()
	text := "# Über\n\nWe say: <ä> & \"b\".\n\n## Mehr\n\nNoch ein Satz."
	raw, err := json.Marshal(map[string]any{"document": "d", "title": "T", "format": "markdown", "text": text, "metadata": map[string]any{"n": 12345678901234567}})
	if err != nil {
		t.Fatal(err)
	}
	e := event.Event{ID: "1", Source: "/s", Type: "t", Key: "other", Data: raw}
	chunks := apply(t, Config{Size: 40}, e)
	if len(chunks) != 2 || chunks[1].TitlePath[1] != "Mehr" || string(chunks[1].Metadata) != `{"n":12345678901234567}` || chunks[0].Title != "T" {
		t.Fatalf("%+v", chunks)
	}
	for _, c := range chunks {
		if text[c.Start:c.End] != c.Text || len(c.Hash) != 64 || c.Version != chunks[0].Version || c.Version == "" {
			t.Errorf("%+v", c)
		}
	}
	if again := apply(t, Config{Size: 39}, e); again[0].Version == chunks[0].Version {
		t.Error("another way of cutting has the same version")
	}
	// Without a strategy headings only count where the format has them.
	e.Data = []byte(strings.Replace(string(raw), `"markdown"`, `"text"`, 1))
	if chunks := apply(t, Config{}, e); len(chunks) != 1 || chunks[0].TitlePath != nil {
		t.Errorf("%+v", chunks)
	}
	if chunks := apply(t, Config{}, event.Event{ID: "1", Subject: "s.txt", ContentType: "text/plain", Data: []byte("plain")}); chunks[0].Document != "s.txt" || chunks[0].Text != "plain" {
		t.Errorf("%+v", chunks)
	}
	if chunks := apply(t, Config{}, event.Event{ID: "1", Data: []byte(`{"text":" \n"}`)}); len(chunks) != 1 || chunks[0].Total != 0 || chunks[0].Document != "1" {
		t.Errorf("an empty document: %+v", chunks)
	}
	long := apply(t, Config{Size: 20}, event.Event{ID: "1", Data: []byte(`{"text":"数据库很简单。只要复制文件就可以了，不需要停机。然后恢复。"}`)})
	if len(long) != 3 || !strings.HasSuffix(long[0].Text, "。") && !strings.HasSuffix(long[0].Text, "，") {
		t.Errorf("Chinese sentences: %+v", long)
	}
}

func TestStepPasses(t *testing.T) {
	t.Parallel()
	st, err := NewStep(Config{MaxChunks: 2, Strategy: Recursive, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	out, err := st.Apply(event.Event{ID: "1", Subject: "s"}, nil)
	if err != nil || len(out) != 1 || !out[0].Tombstone() || out[0].Key != "s" {
		t.Errorf("a tombstone: %+v %v", out, err)
	}
	for in, want := range map[string]string{
		`{"text":"abc"}`:             "the document makes 3 chunks, more than maxChunks, 2",
		`{"title":"x"}`:              "data.text is not there",
		`{"text":1}`:                 "data is no document",
		`[]`:                         "data is no document",
		`{"text":"x","document":[]}`: "data is no document",
	} {
		if _, err := st.Apply(event.Event{ID: "1", Data: []byte(in)}, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, not %s", in, err, want)
		}
	}
	if _, err := st.Apply(event.Event{ID: "1", ContentType: "image/png", Data: []byte("x")}, nil); err == nil {
		t.Error("a picture was cut")
	}
}

func TestStepRefused(t *testing.T) {
	t.Parallel()
	overlap := 11
	for want, c := range map[string]Config{
		"overlap":    {Size: 10, Overlap: &overlap},
		"strategy":   {Strategy: "semantic"},
		"language":   {Language: "go"},
		"separators": {Strategy: Fixed, Separators: []string{"x"}},
	} {
		_, err := NewStep(c)
		if se, ok := errors.AsType[*spec.Error](err); !ok || se.Problems[0].Path != want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if chunks := apply(t, Config{Strategy: Recursive, Language: "go", Size: 30}, event.Event{ID: "1", Data: []byte(`{"text":"package a\n\nfunc one() {\n\treturn\n}\n\nfunc two() {\n\treturn\n}\n"}`)}); len(chunks) != 3 || !strings.HasPrefix(chunks[2].Text, "func two") {
		t.Errorf("%+v", chunks)
	}
}
