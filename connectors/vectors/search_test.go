package vectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"millrace/bus/event"
	"millrace/connectors"
)

// shelf are documents to be found, by name.
var shelf = map[string]string{
	"backup":   "Backups\n\nCopy the data directory while the node is stopped, or take a snapshot of the volume. Restoring is copying it back.",
	"network":  "Network\n\nThe server listens on port 8080 for HTTP and on 8081 for gRPC. Bind another address with --http.",
	"retry":    "Retries\n\nA failed delivery is repeated with growing delays. When the schedule is used up, the event goes to the dead letters.",
	"schema":   "Schemas\n\nA subject keeps the versions of a schema; new ones are checked for compatibility.",
	"备份":       "数据库备份\n\n停止服务后复制数据目录即可完成备份，恢复时把目录复制回来。",
	"网络":       "网络配置\n\n服务默认监听 8080 端口，可以用参数修改监听地址。",
	"重试":       "失败重试\n\n投递失败的事件会按照递增的间隔重试，超过次数后进入死信队列。",
	"katakana": "データベースのバックアップは、ディレクトリをコピーするだけです。",
}

func fill(tb testing.TB, b *bench) {
	tb.Helper()
	offset := int64(0)
	for _, name := range slices.Sorted(maps.Keys(shelf)) {
		offset++
		data, err := json.Marshal(map[string]string{"document": name, "text": shelf[name]})
		if err != nil {
			tb.Fatal(err)
		}
		b.write(tb, at(offset, event.Event{ID: name, Source: "/s", Type: "t", Key: name, Data: data}))
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	if hits := b.search(t, connectors.Query{Text: "anything"}); len(hits) != 0 {
		t.Errorf("an empty store has hits: %v", hits)
	}
	fill(t, b)
	for question, want := range map[string]string{
		"How do I restore from a backup?":         "backup",
		"which ports does the server listen on":   "network",
		"what happens when a delivery is failing": "retry",
		"Where are DEAD letters?":                 "retry",
		"is my schema compatible":                 "schema",
		"怎么恢复数据库的备份？":                             "备份",
		"监听哪个端口":                                  "网络",
		"重试失败之后事件去哪里了":                            "重试",
		"バックアップの方法":                               "katakana",
	} {
		if got := b.first(t, question); got != want {
			t.Errorf("%s: %q, not %q: %v", question, got, want, b.search(t, connectors.Query{Text: question}))
		}
	}
	if hits := b.search(t, connectors.Query{Text: "quantum chromodynamics"}); len(hits) != 0 {
		t.Errorf("what shares no word is found: %v", hits)
	}
	for _, strange := range []string{"", " ", `"`, `a" OR b*`, "NEAR(", "-", "ü", "\x00", strings.Repeat("word ", 5000)} {
		b.search(t, connectors.Query{Text: strange})
	}
}

func TestSearchFilter(t *testing.T) {
	t.Parallel()
	b := setup(t, small)
	for i, metadata := range []string{`{"lang":"en","tags":["a","b"],"deep":{"n":1}}`, `{"lang":"de","tags":["b"],"draft":true}`, `{"lang":"en","n":2.5}`} {
		data := fmt.Sprintf(`{"text":"common words here","title":"T%d","metadata":%s}`, i, metadata)
		b.write(t, at(int64(i), event.Event{ID: strconv.Itoa(i), Source: "/s", Type: "t", Key: fmt.Sprintf("k%d", i), Data: json.RawMessage(data)}))
	}
	for _, c := range []struct {
		filter map[string]any
		want   []string
	}{
		{nil, []string{"k0", "k1", "k2"}},
		{map[string]any{"lang": "en"}, []string{"k0", "k2"}},
		{map[string]any{"metadata.lang": "de"}, []string{"k1"}},
		{map[string]any{"tags": "b"}, []string{"k0", "k1"}},
		{map[string]any{"tags": "b", "lang": "en"}, []string{"k0"}},
		{map[string]any{"deep.n": 1.0}, []string{"k0"}},
		{map[string]any{"draft": true}, []string{"k1"}},
		{map[string]any{"n": json.Number("2.5")}, []string{"k2"}},
		{map[string]any{"document": "k2"}, []string{"k2"}},
		{map[string]any{"title": "T1"}, []string{"k1"}},
		{map[string]any{"nothing": "x"}, nil},
	} {
		var got []string
		for _, h := range b.search(t, connectors.Query{Text: "common words", Filter: c.filter}) {
			got = append(got, h.Document)
			if h.ID == "" || h.Score <= 0 || h.Text == "" || h.Metadata["title"] == nil {
				t.Errorf("%+v", h)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, not %v", c.filter, got, c.want)
		}
	}
	if got := b.search(t, connectors.Query{Text: "common words", Top: 2}); len(got) != 2 {
		t.Errorf("%d hits, not 2", len(got))
	}
	s, err := Plugin().Sink.Search(t.Context(), b.config, b.env)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]any{"x": []any{1}, `a"b`: "x"} {
		_, err := s.Search(t.Context(), connectors.Query{Text: "x", Filter: map[string]any{key: value}})
		if he, ok := errors.AsType[*connectors.HTTPError](err); !ok || he.Status != 400 || he.Field != "filter."+key {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestSearchHTTP embeds text and questions by an endpoint.
func TestSearchHTTP(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		var parts []string
		for i, text := range in.Input { // near where both are about animals
			x := 0.1
			if strings.Contains(text, "cat") || strings.Contains(text, "feline") {
				x = 1
			}
			parts = append(parts, fmt.Sprintf(`{"index":%d,"embedding":[%v,0.5,0]}`, i, x))
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(parts, ","))
	}))
	defer server.Close()
	b := setup(t, map[string]any{"embed": map[string]any{"url": server.URL, "model": "m", "allowPrivate": true}})
	for i, text := range []string{"a cat sleeps", "a stone lies"} {
		b.write(t, at(int64(i), event.Event{ID: text, Key: text, Data: []byte(fmt.Sprintf(`{"text":%q}`, text))}))
	}
	if got := b.first(t, "feline"); got != "a cat sleeps" {
		t.Errorf("by meaning: %q", got)
	}
	err := b.sink.Write(t.Context(), []event.Record{at(9, event.Event{ID: "9", Key: "9", Data: []byte(`{"text":"x","embedding":[1,2]}`)})})
	if err == nil || !strings.Contains(err.Error(), "data.embedding has 2 dimensions, but the store's vectors have 3") {
		t.Error(err)
	}
}

func BenchmarkSearch(b *testing.B) {
	s := setup(b, nil)
	data := func(i int) []byte {
		return fmt.Appendf(nil, `{"text":"chunk %d speaks of topic %d and topic %d at some length, so that it is like a real one","title":"document %d"}`, i, i%97, i%31, i%500)
	}
	var recs []event.Record
	for i := range 10000 {
		recs = append(recs, at(int64(i), event.Event{ID: strconv.Itoa(i), Key: strconv.Itoa(i), Data: data(i)}))
	}
	s.write(b, recs...)
	for b.Loop() {
		if hits := s.search(b, connectors.Query{Text: "what is said of topic 42?"}); len(hits) != 5 {
			b.Fatal(len(hits))
		}
	}
}
