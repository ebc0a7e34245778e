package vectors

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/connectorstest"
	"millrace/schemas/spec"
	"millrace/transforms/chunk"
	"millrace/transforms/embed"
)

// TestConformance is alone: it looks for goroutines left behind.
func TestConformance(t *testing.T) {
	connectorstest.Sink(t, connectorstest.SinkCase{
		Plugin: Plugin(),
		Target: func(t *testing.T) (map[string]any, func(*testing.T) []string) {
			t.Helper()
			path := filepath.Join(t.TempDir(), "store", "v.db")
			return map[string]any{"path": path, "identity": "id", "embed": map[string]any{"dimensions": 64}}, func(t *testing.T) []string {
				t.Helper()
				return column(t, path, `select document from chunks order by rowid`)
			}
		},
		Bad: func(r *event.Record) { r.Data = []byte(`{"no":"text"}`) },
	})
}

// column reads the file as another process would.
func column(t *testing.T, path, query string) []string {
	t.Helper()
	db, err := connect(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s sql.NullString
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s.String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// bench is a store and what writes it and asks it.
type bench struct {
	config map[string]any
	env    connectors.Env
	sink   connectors.Sink
}

func setup(tb testing.TB, config map[string]any) *bench {
	tb.Helper()
	b := &bench{config: config, env: connectors.Env{Connector: "v", Tasks: 1, Now: time.Now, DataDir: tb.TempDir()}}
	b.open(tb)
	tb.Cleanup(func() { b.sink.Close() })
	return b
}

func (b *bench) open(tb testing.TB) {
	tb.Helper()
	s, err := Plugin().Sink.Open(tb.Context(), b.config, b.env)
	if err != nil {
		tb.Fatal(err)
	}
	b.sink = s
}

func (b *bench) path() string { return filepath.Join(b.env.DataDir, "vectors.db") }

func (b *bench) write(tb testing.TB, records ...event.Record) {
	tb.Helper()
	if err := errors.Join(b.sink.Write(tb.Context(), records), b.sink.Flush(tb.Context())); err != nil {
		tb.Fatal(err)
	}
}

func (b *bench) search(tb testing.TB, q connectors.Query) []connectors.Hit {
	tb.Helper()
	s, err := Plugin().Sink.Search(tb.Context(), b.config, b.env)
	if err != nil {
		tb.Fatal(err)
	}
	hits, err := s.Search(tb.Context(), q)
	if err != nil {
		tb.Fatal(err)
	}
	return hits
}

// first is the document of the best hit.
func (b *bench) first(tb testing.TB, text string) string {
	tb.Helper()
	if hits := b.search(tb, connectors.Query{Text: text}); len(hits) > 0 {
		return hits[0].Document
	}
	return ""
}

// records are the chunks of a document, as a chain of chunk and embed makes them
// of the record at offset.
func records(tb testing.TB, offset int64, document, text string, size int) []event.Record {
	tb.Helper()
	step, err := chunk.NewStep(chunk.Config{Size: size})
	if err != nil {
		tb.Fatal(err)
	}
	data, err := json.Marshal(map[string]any{"document": document, "text": text, "metadata": map[string]any{"n": offset}})
	if err != nil {
		tb.Fatal(err)
	}
	events, err := step.Apply(event.Event{ID: document, Source: "/s", Type: "t", Key: document, Data: data}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	results, err := embed.NewStep(embed.NewLexical(64, false)).Apply(tb.Context(), events)
	if err != nil {
		tb.Fatal(err)
	}
	var out []event.Record
	for _, r := range results {
		if r.Err != nil {
			tb.Fatal(r.Err)
		}
		out = append(out, at(offset, r.Event))
	}
	return out
}

func at(offset int64, e event.Event) event.Record {
	return event.Record{Topic: "docs", Offset: offset, Origin: event.Ref{Topic: 3, Offset: offset}, Event: e}
}

func gone(offset int64, document string) event.Record {
	return at(offset, event.Event{ID: document, Source: "/s", Type: "t", Key: document})
}

var small = map[string]any{"embed": map[string]any{"dimensions": 64}}

func TestReplace(t *testing.T) {
	t.Parallel()
	b := setup(t, small)
	long := "alpha one\n\nbeta two\n\ngamma three\n\ndelta four"
	texts := func() []string { return column(t, b.path(), `select text from chunks order by document, seq`) }
	v1 := records(t, 1, "a", long, 12)
	if len(v1) != 4 {
		t.Fatalf("%d chunks", len(v1))
	}
	b.write(t, v1...)
	if got := texts(); len(got) != 4 || got[2] != "gamma three" {
		t.Fatal(got)
	}
	// A new version that comes in parts shows when it is whole.
	v2 := records(t, 5, "a", "alpha new\n\nbeta new", 12)
	b.write(t, v2[0])
	if got := b.first(t, "gamma three"); got != "a" {
		t.Errorf("half a version hides the old one: %q", got)
	}
	b.sink.Close()
	b.open(t)
	b.write(t, v2[1])
	if got := texts(); !slices.Equal(got, []string{"alpha new", "beta new"}) {
		t.Fatal(got)
	}
	if hits := b.search(t, connectors.Query{Text: "gamma three delta"}); len(hits) != 0 {
		t.Errorf("the old version is found: %v", hits)
	}
	// Late, repeated and redriven ones change nothing.
	b.write(t, v1...)
	b.write(t, v2...)
	b.write(t, gone(2, "a"))
	if got := texts(); !slices.Equal(got, []string{"alpha new", "beta new"}) {
		t.Fatal(got)
	}
	// Empty, then deleted, then late again.
	b.write(t, records(t, 7, "a", "  ", 12)...)
	if got := texts(); len(got) != 0 {
		t.Fatal(got)
	}
	b.write(t, records(t, 8, "a", "back again", 12)...)
	b.write(t, gone(9, "a"))
	b.write(t, v2...)
	if got := texts(); len(got) != 0 {
		t.Fatal(got)
	}
	for _, table := range []string{"chunks", "pending", "vec", "fts"} {
		if got := column(t, b.path(), `select count(*) from `+table); got[0] != "0" {
			t.Errorf("%s holds %s rows", table, got[0])
		}
	}
}

// TestOnePass is what Airbyte's writer gets wrong: versions of one document, and
// its deletion, in one batch.
func TestOnePass(t *testing.T) {
	t.Parallel()
	b := setup(t, small)
	b.write(t, slices.Concat(records(t, 1, "a", "first", 12), records(t, 2, "a", "second", 12), records(t, 3, "b", "third", 12), []event.Record{gone(4, "b")})...)
	if got := column(t, b.path(), `select text from chunks`); !slices.Equal(got, []string{"second"}) {
		t.Error(got)
	}
}

// TestForeignChunks takes chunks from topics in which each is a record of its own.
func TestForeignChunks(t *testing.T) {
	t.Parallel()
	b := setup(t, small)
	piece := func(offset int64, seq, total int, text string) event.Record {
		data := fmt.Sprintf(`{"document":"a","seq":%d,"total":%d,"text":%q}`, seq, total, text)
		return at(offset, event.Event{ID: fmt.Sprintf("a/%d", seq), Source: "/s", Type: "t", Key: "a", Data: []byte(data)})
	}
	texts := func() string {
		return strings.Join(column(t, b.path(), `select text from chunks order by seq`), " ")
	}
	b.write(t, piece(10, 0, 2, "one"), piece(11, 1, 2, "two"))
	b.write(t, piece(12, 0, 2, "uno"))
	if got := texts(); got != "one two" {
		t.Error(got)
	}
	b.write(t, piece(13, 0, 2, "eins")) // the rest of the one before was lost
	b.write(t, piece(14, 1, 2, "zwei"))
	if got := texts(); got != "eins zwei" {
		t.Error(got)
	}
	b.write(t, piece(11, 1, 2, "two"), piece(10, 0, 2, "one"))
	if got := texts(); got != "eins zwei" {
		t.Error(got)
	}
	b.write(t, piece(15, 2, 3, "c"), piece(16, 1, 3, "b"), piece(17, 0, 3, "a")) // in any order
	if got := texts(); got != "a b c" {
		t.Error(got)
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, small)
	for data, want := range map[string]string{
		`{"text":"x","embedding":[1,2]}`:                            "has 2 dimensions, but the store's vectors have 64",
		`{"text":"x","embedding":[1],"embedder":{"model":"other"}}`: "embedded by other, but the sink asks with lexical-hash-v1",
		`{"title":"x"}`:                   "data.text is not there",
		`{"text":"x","seq":2,"total":2}`:  "data.seq must be from 0 to below data.total",
		`{"text":"x","seq":0}`:            "data.seq must be",
		`{"text":"x","metadata":[1]}`:     "data.metadata is no object",
		`[1]`:                             "data is no chunk",
		`{"text":7}`:                      "data is no chunk",
		`{"text":"x","embedding":[1e39]}`: "data is no chunk",
	} {
		err := b.sink.Write(t.Context(), []event.Record{at(1, event.Event{ID: "1", Key: "k", Data: []byte(data)})})
		be, ok := errors.AsType[*connectors.BatchError](err)
		if !ok || !connectors.IsPermanent(be.Failed[0]) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %s", data, err, want)
		}
	}
	b.write(t, records(t, 1, "a", "text", 100)...)
	b.sink.Close()
	for want, config := range map[string]map[string]any{
		"dimensions: the store's vectors have 64, not 128":         {"embed": map[string]any{"dimensions": 128}},
		"embed: the store's vectors are by lexical-hash-v1, not m": {"embed": map[string]any{"url": "http://127.0.0.1:1", "model": "m"}},
	} {
		if _, err := Plugin().Sink.Open(t.Context(), config, b.env); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, not %s", config, err, want)
		}
	}
	b.open(t)
}

// TestFailedOffsets checks that an offset never passes a record that failed before
// the runtime has dealt with it.
func TestFailedOffsets(t *testing.T) {
	t.Parallel()
	b := setup(t, small)
	offsets := func() map[string]int64 {
		t.Helper()
		o, err := b.sink.(connectors.OffsetKeeper).Offsets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	good := func(offset int64) event.Record {
		return at(offset, event.Event{ID: strconv.FormatInt(offset, 10), Key: "k", Data: []byte(`{"text":"x"}`)})
	}
	bad := at(2, event.Event{ID: "2", Key: "k", Data: []byte(`{}`)})
	b.write(t, good(1))
	if got := offsets()["docs/0"]; got != 2 {
		t.Errorf("after record 1 the offset is %d", got)
	}
	if err := b.sink.Write(t.Context(), []event.Record{bad, good(3)}); err == nil {
		t.Fatal("a bad record was taken")
	}
	b.write(t, good(4))
	if got, ok := offsets()["docs/0"]; ok {
		t.Errorf("before its letter is known to be stored, the offset is %d", got)
	}
	b.write(t, good(5))
	if got := offsets()["docs/0"]; got != 6 {
		t.Errorf("then the offset is %d, not 6", got)
	}
}

// TestSecret looks for the endpoint's key in what is shown of a config.
func TestSecret(t *testing.T) {
	t.Parallel()
	for _, config := range []map[string]any{
		{"embed": map[string]any{"url": "https://example.com/v1", "model": "m", "apiKey": "hunter2"}},
		{"embed": `{"url":"https://example.com/v1","model":"m","apiKey":"hunter2"}`},
		{"embed.url": "https://example.com/v1", "embed.model": "m", "embed.apiKey": "hunter2"},
	} {
		k := Plugin().Sink
		if err := k.Check(config); err != nil {
			t.Errorf("%v: %v", config, err)
		}
		if shown := fmt.Sprint(spec.Redact(config, k.Spec), k.Spec.Validate(config)); strings.Contains(shown, "hunter2") {
			t.Errorf("the key is shown: %s", shown)
		}
	}
}
