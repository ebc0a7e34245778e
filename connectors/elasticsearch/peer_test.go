package elasticsearch_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/connectorstest"
	"millrace/connectors/elasticsearch"
)

// TestPeerOpenSearch runs the sink against a real OpenSearch; what the double says
// is held to it.
func TestPeerOpenSearch(t *testing.T) {
	jars := os.Getenv("MILLRACE_OPENSEARCH_JARS")
	if jars == "" {
		t.Skip("MILLRACE_OPENSEARCH_JARS names no directory of OpenSearch's jars: run scripts/test-peers")
	}
	url := openSearch(t, jars)
	t.Log("counterpart: OpenSearch")
	t.Run("documents", func(t *testing.T) {
		documents(t, url, func() map[document]string { return search(t, url, "orders") })
	})
	t.Run("items", func(t *testing.T) {
		s := sinkTo(t, url, map[string]any{"index": "items"})
		failed := failures(t, s.Write(t.Context(), []event.Record{
			rec(1, "a", `{"n":1}`), rec(2, "b", `{"n":"no number"}`), rec(3, "c", `{"n":3}`), rec(4, "gone", ""), rec(5, strings.Repeat("ü", 300), `{"n":5}`),
		}))
		if len(failed) != 1 || !connectors.IsPermanent(failed[1]) || !strings.Contains(failed[1].Error(), "mapper_parsing_exception") {
			t.Error(failed)
		}
		if held := search(t, url, "items"); len(held) != 3 {
			t.Error(held)
		}
	})
	t.Run("a legal name for every topic", func(t *testing.T) {
		for _, topic := range []string{"__rule.Über *1*", "a:b,c#d|e?f<g>h\"i\\j/k", "-_+x", "...", strings.Repeat("long", 100)} {
			r := rec(1, "k", `{"n":1}`)
			r.Topic = topic
			if err := sinkTo(t, url, nil).Write(t.Context(), []event.Record{r}); err != nil {
				t.Errorf("%q: %v", topic, err)
			}
		}
	})
	t.Run("conformance", func(t *testing.T) {
		var n atomic.Int64
		connectorstest.Sink(t, connectorstest.SinkCase{
			Plugin: elasticsearch.Plugin(),
			Target: func(*testing.T) (map[string]any, func(*testing.T) []string) {
				index := fmt.Sprintf("conformance-%d", n.Add(1))
				read := func(t *testing.T) []string {
					t.Helper()
					return rowsOf(t, search(t, url, index))
				}
				return map[string]any{"connection.url": url, "index": index, "key.ignore": true, "behavior.on.null.values": "ignore"}, read
			},
			Bad: func(r *event.Record) { r.Data = []byte(`{"id":"x","n":"no number"}`) },
		})
	})
}

// openSearch starts a node; it ends with its standard input.
func openSearch(t *testing.T, jars string) string {
	t.Helper()
	cmd := exec.Command("java", "-Xmx512m", "-cp", filepath.Join(jars, "*"), "peer/OpenSearch.java", t.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // how it ends tells nothing more
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the process
			return "http://" + addr
		}
	}
	_ = cmd.Wait()
	t.Fatalf("OpenSearch does not start:\n%s", log.String())
	return ""
}

// search returns all documents of an index, once they can be found.
func search(t *testing.T, url, index string) map[document]string {
	t.Helper()
	var answer struct {
		Hits struct {
			Hits []struct {
				Index  string          `json:"_index"`
				ID     string          `json:"_id"`
				Source json.RawMessage `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
	}
	for _, call := range []struct{ method, path string }{{http.MethodPost, "/_refresh"}, {http.MethodGet, "/_search?size=10000"}} {
		req, err := http.NewRequestWithContext(t.Context(), call.method, url+"/"+index+call.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusNotFound {
			return nil // no index yet
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %s %v", call.path, resp.Status, body, err)
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatal(err)
		}
	}
	held := map[document]string{}
	for _, h := range answer.Hits.Hits {
		held[document{h.Index, h.ID}] = string(h.Source)
	}
	http.DefaultClient.CloseIdleConnections()
	return held
}

// rowsOf lists the ids of rows, queue by queue in their order: a search has none
// of its own.
func rowsOf(t *testing.T, held map[document]string) []string {
	t.Helper()
	var ids []string
	for _, source := range held {
		ids = append(ids, idOf(t, []byte(source)))
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	return ids
}
