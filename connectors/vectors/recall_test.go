package vectors

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/transforms"
)

// TestRecall asks the questions of testdata/recall.txtar about documents that went
// through load, chunk and embed. It prints how many were answered by the first
// and by the first five hits, and holds them to a floor.
func TestRecall(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile("testdata/recall.txtar")
	if err != nil {
		t.Fatal(err)
	}
	chain, err := transforms.Compile([]json.RawMessage{[]byte(`{"load":{}}`), []byte(`{"chunk":{"size":300}}`), []byte(`{"embed":{}}`)}, transforms.Env{})
	if err != nil {
		t.Fatal(err)
	}
	b := setup(t, nil)
	var questions string
	for i, f := range archive.Files {
		if f.Name == "questions" {
			questions = string(f.Data)
			continue
		}
		e := event.Event{ID: f.Name, Source: "/handbook", Type: "t", Key: f.Name, ContentType: "text/markdown", Data: f.Data}
		results, err := chain.Apply(t.Context(), []event.Event{e})
		if err != nil {
			t.Fatal(err)
		}
		var recs []event.Record
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			recs = append(recs, at(int64(i), r.Event))
		}
		b.write(t, recs...)
	}
	asked, first, five := 0, 0, 0
	for line := range strings.Lines(questions) {
		question, want, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			continue
		}
		asked++
		for rank, h := range b.search(t, connectors.Query{Text: question}) {
			if h.Document != want {
				continue
			}
			five++
			if rank == 0 {
				first++
			} else {
				t.Logf("rank %d: %s", rank+1, question)
			}
			break
		}
	}
	t.Logf("%d questions: recall@1 %.2f, recall@5 %.2f", asked, float64(first)/float64(asked), float64(five)/float64(asked))
	if asked != 33 || first < asked*8/10 || five < asked*95/100 {
		t.Errorf("of %d questions %d are answered by the first hit, %d by the first five", asked, first, five)
	}
}
