package elasticsearch_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/connectorstest"
	"millrace/connectors/elasticsearch"
)

func TestConformance(t *testing.T) {
	for name, more := range map[string]map[string]any{
		"data": {}, "event": {"document.value": "event"}, "small requests": {"batch.size": 2}, "bytes": {"bulk.size.bytes": "1KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			c := connectorstest.SinkCase{Plugin: elasticsearch.Plugin(), Target: func(t *testing.T) (map[string]any, func(*testing.T) []string) {
				t.Helper()
				d := newDouble(t)
				config := map[string]any{
					"connection.url": d.server.URL, "key.ignore": true, "behavior.on.null.values": "ignore", // every event a document
					"connection.username": "u", "connection.password": "p",
				}
				maps.Copy(config, more)
				return config, d.ids
			}}
			if more["document.value"] == nil {
				c.Bad = func(r *event.Record) { r.Data = []byte(`{"id":"x","n":"no number"}`) }
			}
			connectorstest.Sink(t, c)
		})
	}
}

func sinkTo(t *testing.T, url string, more map[string]any) connectors.Sink {
	t.Helper()
	config := map[string]any{"connection.url": url}
	maps.Copy(config, more)
	s, err := elasticsearch.Plugin().Sink.Open(t.Context(), config, connectors.Env{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// rec is a record of topic "Orders", incarnation 7; no data makes a tombstone.
func rec(offset int64, key, data string) event.Record {
	r := event.Record{
		Topic: "Orders", Offset: offset, Origin: event.Ref{Topic: 7, Offset: offset},
		Event: event.Event{ID: fmt.Sprint("e", offset), Source: "/s", Type: "t", Key: key},
	}
	if data != "" {
		r.Data = []byte(data)
	}
	return r
}

func holds(t *testing.T, hold func() map[document]string, want map[document]string) {
	t.Helper()
	if diff := cmp.Diff(want, hold()); diff != "" {
		t.Error(diff)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	documents(t, d.server.URL, d.hold)
	if !slices.Equal(d.requests, []int{9, 9, 3, 1}) {
		t.Errorf("requests of %v", d.requests)
	}
}

// documents are what a server holds after writes, whichever server it is.
func documents(t *testing.T, url string, hold func() map[document]string) {
	t.Helper()
	s := sinkTo(t, url, nil)
	long := strings.Repeat("k", 513)
	batch := []event.Record{
		rec(1, "a", `{"n":1}`), rec(2, "b", "{\n \"n\" : 2,\r\n\"t\":\"x\\ny\"}\n"), rec(3, "a", `{"n":3}`), rec(4, "c", `{"n":4}`), rec(5, "c", ""), rec(6, "d", ""),
		rec(7, "", `{"n":7}`), rec(8, long, `{"n":8}`), rec(9, `ü"\`, `{"n":9}`),
	}
	want := map[document]string{
		{"orders", "a"}: `{"n":3}`, {"orders", "b"}: `{"n":2,"t":"x\ny"}`, {"orders", "7/0/7/e7"}: `{"n":7}`, {"orders", `ü"\`}: `{"n":9}`,
		{"orders", fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(long)))}: `{"n":8}`,
	}
	for range 2 { // repetitions change nothing
		if err := errors.Join(s.Write(t.Context(), batch), s.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		holds(t, hold, want)
	}
	// What is older than the document is dropped; a topic made again is newer.
	again := rec(0, "a", `{"n":0}`)
	again.Origin.Topic = 9
	if err := s.Write(t.Context(), []event.Record{rec(2, "a", `{"n":2}`), rec(4, "c", `{"n":4}`), again}); err != nil {
		t.Fatal(err)
	}
	want[document{"orders", "a"}] = `{"n":0}`
	holds(t, hold, want)
	// The old topic's events meet a document that is not theirs.
	failed := failures(t, s.Write(t.Context(), []event.Record{rec(9, "a", `{"n":9}`)}))
	if !connectors.IsPermanent(failed[0]) || !strings.Contains(failed[0].Error(), "external.version: the document is of another topic") {
		t.Error(failed)
	}
}

func failures(t *testing.T, err error) map[int]error {
	t.Helper()
	be, ok := errors.AsType[*connectors.BatchError](err)
	if !ok {
		t.Fatalf("%v is no batch error", err)
	}
	return be.Failed
}

func TestEventDocumentsAndIndex(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	s := sinkTo(t, d.server.URL, map[string]any{"document.value": "event", "index": "log-${topic}", "external.version": false})
	r := rec(1, "k", "plain text")
	r.ContentType, r.Topic = "text/plain", "__rule.Über *1*"
	if err := s.Write(t.Context(), []event.Record{r}); err != nil {
		t.Fatal(err)
	}
	holds(t, d.hold, map[document]string{{"log-rule.über--1-", "k"}: `{"specversion":"1.0","id":"e1","source":"/s","type":"t","datacontenttype":"text/plain","partitionkey":"k","data":"plain text"}`})
}

func TestNulls(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		nulls, key string
		ignore     bool
		want       string // "" = taken
	}{
		{"delete", "k", false, ""},
		{"delete", "", false, "behavior.on.null.values: the event is a tombstone without a key, which deletes nothing: set ignore to drop it"},
		{"delete", "k", true, "behavior.on.null.values: the event is a tombstone without a key, which deletes nothing: set ignore to drop it"},
		{"ignore", "k", false, ""},
		{"ignore", "", false, ""},
		{"fail", "k", false, "behavior.on.null.values: the event is a tombstone: set delete or ignore to take it"},
	} {
		d := newDouble(t)
		s := sinkTo(t, d.server.URL, map[string]any{"behavior.on.null.values": tc.nulls, "key.ignore": tc.ignore})
		err := s.Write(t.Context(), []event.Record{rec(1, "x", `{}`), rec(2, tc.key, "")})
		if tc.want == "" {
			if err != nil {
				t.Error(tc, err)
			}
			continue
		}
		if failed := failures(t, err); len(failed) != 1 || !connectors.IsPermanent(failed[1]) || failed[1].Error() != tc.want {
			t.Error(tc, failed)
		}
		if len(d.hold()) != 1 {
			t.Error(tc, d.hold())
		}
	}
}

// TestItems is requirement R17: what fails alone fails alone.
func TestItems(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	busy := true
	d.item = func(doc document) (int, string) {
		switch doc.id {
		case "busy":
			if busy {
				return 429, "es_rejected_execution_exception"
			}
		case "blocked":
			if busy {
				return 403, "cluster_block_exception"
			}
		case "secured":
			return 403, "security_exception"
		case "no index":
			return 404, "index_not_found_exception"
		}
		return 0, ""
	}
	s := sinkTo(t, d.server.URL, nil)
	batch := []event.Record{
		rec(1, "a", `{"n":1}`), rec(2, "busy", `{"n":2}`), rec(3, "b", `{"n":"x"}`), rec(4, "c", `{"n":4}`), rec(5, "blocked", `{}`), rec(6, "secured", `{}`),
		rec(7, "d", `[1]`), rec(8, "e", `{"n":`), rec(9, "no index", `{}`), rec(10, "busy", `{"n":10}`),
	}
	failed := failures(t, s.Write(t.Context(), batch))
	for i, want := range map[int]struct {
		permanent bool
		text      string
	}{
		1: {false, "429 es_rejected_execution_exception"}, 2: {true, "mapper_parsing_exception: failed to parse field [n] of type [long]: For input string"},
		4: {false, "cluster_block_exception"}, 5: {false, "connection.username: the user may not write index orders"}, 6: {true, "document.value"},
		7: {true, "document.value"}, 8: {true, "index: create it, or allow the server to"}, 9: {false, "429"},
	} {
		if err := failed[i]; err == nil || connectors.IsPermanent(err) != want.permanent || !strings.Contains(err.Error(), want.text) {
			t.Errorf("record %d: %v", i, err)
		}
	}
	if len(failed) != 8 {
		t.Error(failed)
	}
	busy = false
	if err := s.Write(t.Context(), []event.Record{batch[1], batch[4], batch[9]}); err != nil {
		t.Error(err)
	}
	holds(t, d.hold, map[document]string{
		{"orders", "a"}: `{"n":1}`, {"orders", "c"}: `{"n":4}`, {"orders", "busy"}: `{"n":10}`, {"orders", "blocked"}: `{}`,
	})
}

// TestOrderWithoutVersions holds that a document is right again once what failed
// on it was tried again.
func TestOrderWithoutVersions(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	left := 1
	d.item = func(doc document) (int, string) {
		if doc.id == "k" && left > 0 {
			left--
			return 503, "unavailable_shards_exception"
		}
		return 0, ""
	}
	s := sinkTo(t, d.server.URL, map[string]any{"external.version": false, "batch.size": 2})
	batch := []event.Record{rec(1, "k", `{"n":1}`), rec(2, "k", `{"n":2}`), rec(3, "x", `{"n":3}`), rec(4, "k", `{"n":4}`), rec(5, "x", `{"n":5}`)}
	failed := failures(t, s.Write(t.Context(), batch))
	if got := slices.Sorted(maps.Keys(failed)); !slices.Equal(got, []int{0, 1, 3}) {
		t.Error(got)
	}
	if err := s.Write(t.Context(), []event.Record{batch[0], batch[1], batch[3]}); err != nil {
		t.Error(err)
	}
	holds(t, d.hold, map[document]string{{"orders", "k"}: `{"n":4}`, {"orders", "x"}: `{"n":5}`})
}

// TestSplit holds that events made from one event do not overwrite each other.
func TestSplit(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	one, two := rec(1, "k", `{"n":1}`), rec(1, "k", `{"n":2}`)
	one.ID, two.ID = "e/0", "e/1"
	failed := failures(t, sinkTo(t, d.server.URL, nil).Write(t.Context(), []event.Record{one, two}))
	if len(failed) != 1 || !connectors.IsPermanent(failed[1]) || !strings.Contains(failed[1].Error(), "key.ignore") {
		t.Error(failed)
	}
	d = newDouble(t)
	if err := sinkTo(t, d.server.URL, map[string]any{"key.ignore": true}).Write(t.Context(), []event.Record{one, two}); err != nil {
		t.Error(err)
	}
	holds(t, d.hold, map[document]string{{"orders", "7/0/1/e/0"}: `{"n":1}`, {"orders", "7/0/1/e/1"}: `{"n":2}`})
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	d.limit = 1000
	var batch []event.Record
	for i := range int64(40) {
		batch = append(batch, rec(i+1, fmt.Sprint("k", i), `{"pad":"`+strings.Repeat("x", 50)+`"}`))
	}
	batch[20].Data = []byte(`{"pad":"` + strings.Repeat("x", 2000) + `"}`)
	failed := failures(t, sinkTo(t, d.server.URL, nil).Write(t.Context(), batch))
	if len(failed) != 1 || !connectors.IsPermanent(failed[20]) || !strings.Contains(failed[20].Error(), "413") {
		t.Error(failed)
	}
	if n := len(d.hold()); n != 39 {
		t.Errorf("%d documents", n)
	}
}

func TestWholeRequests(t *testing.T) {
	t.Parallel()
	batch := []event.Record{rec(1, "a", `{"n":1}`), rec(2, "b", `{"n":2}`), rec(3, "c", `{"n":3}`)}
	for _, tc := range []struct {
		status int
		header string
		body   string
		want   string
		pause  time.Duration
	}{
		{429, "7", `{"error":"busy"}`, "429 Too Many Requests", 7 * time.Second},
		{503, "", `<html>`, "503 Service Unavailable: <html>", 0},
		{403, "", `{}`, "connection.username: the user may not write", 0},
		{404, "", `nothing here`, "connection.url: is this Elasticsearch or OpenSearch?", 0},
		{302, "", ``, "connection.url: is this Elasticsearch or OpenSearch?", 0},
		{200, "", `<html>hello`, "connection.url: the answer is no JSON", 0},
		{200, "", `{"errors":false,"items":[]}`, "connection.url: the answer does not say", 0},
		{200, "", `{"errors":false,"it`, "connection.url: the answer is no JSON", 0},
	} {
		d := newDouble(t)
		calls := 0
		d.before = func(w http.ResponseWriter, _ int) bool {
			if calls++; calls != 2 {
				return false
			}
			w.Header().Set("Retry-After", tc.header)
			answer(w, tc.status, tc.body)
			return true
		}
		s := sinkTo(t, d.server.URL, map[string]any{"batch.size": 1})
		failed := failures(t, s.Write(t.Context(), batch)) // the first was taken
		retry, asked := errors.AsType[*connectors.RetryError](failed[1])
		if got := slices.Sorted(maps.Keys(failed)); !slices.Equal(got, []int{1, 2}) || connectors.IsPermanent(failed[1]) || connectors.IsPermanent(failed[2]) ||
			!strings.Contains(failed[1].Error(), tc.want) || asked != (tc.pause > 0) || asked && retry.After != tc.pause {
			t.Errorf("%d: %v", tc.status, failed)
		}
		calls = 1
		if err := s.Write(t.Context(), batch); err == nil || errors.As(err, new(*connectors.BatchError)) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%d at once: %v", tc.status, err)
		}
	}
}

func TestAccessAndServers(t *testing.T) {
	t.Parallel()
	d := newDouble(t)
	d.user = "u:p"
	gone := newDouble(t)
	gone.server.Close()
	urls := gone.server.URL + "," + d.server.URL
	batch := []event.Record{rec(1, "a", `{"n":1}`)}
	if err := sinkTo(t, urls, map[string]any{"connection.username": "u", "connection.password": "p"}).Write(t.Context(), batch); err != nil {
		t.Error(err)
	}
	err := sinkTo(t, urls, map[string]any{"connection.username": "u", "connection.password": "hunter"}).Write(t.Context(), batch)
	if err == nil || !strings.HasPrefix(err.Error(), "connection.username: ") || strings.Contains(err.Error(), "hunter") || connectors.IsPermanent(err) {
		t.Error(err)
	}
	if err := sinkTo(t, d.server.URL, map[string]any{"api.key": "abc"}).Write(t.Context(), batch); err == nil || !strings.HasPrefix(err.Error(), "api.key: ") {
		t.Error(err)
	}
	if err := sinkTo(t, gone.server.URL, nil).Write(t.Context(), batch); err == nil || !strings.HasPrefix(err.Error(), "connection.url: ") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.before = func(http.ResponseWriter, int) bool { cancel(); return false }
	d.user = ""
	if err := sinkTo(t, d.server.URL, map[string]any{"batch.size": 1}).Write(ctx, []event.Record{rec(2, "a", `{}`), rec(3, "a", `{}`)}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		key   string
		value any
		want  string
	}{
		{"connection.url", "search:9200", "connection.url: must be http or https URLs such as https://search.example.com:9200"},
		{"connection.url", "https://u:p@x", "connection.url: must not hold a user or password: use connection.username and connection.password"},
		{"connection.url", "${env:ES_URL}", ""},
		{"connection.password", "p", "connection.username: is required with connection.password"},
		{"index", "Orders?", "index: is not a legal name, such as orders-"},
		{"index", "log-${topic}", ""},
	} {
		err := elasticsearch.Plugin().Sink.Check(map[string]any{"connection.url": "https://a:1,https://b:1", tc.key: tc.value})
		if got := fmt.Sprint(err); got != tc.want && (err != nil || tc.want != "") {
			t.Errorf("%s=%v: %s", tc.key, tc.value, got)
		}
	}
	if _, _, kind, err := connectors.Lookup([]connectors.Plugin{elasticsearch.Plugin()}, "ElasticsearchSinkConnector"); err != nil || kind == nil {
		t.Error(err)
	}
}
