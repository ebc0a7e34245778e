package s3_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/s3"
)

func compress(t *testing.T, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// changedInMidRead replaces an object while it is read.
func changedInMidRead(b *bucket) {
	t := b.t
	b.put("a.ndjson", numbered(50_000, `{"old":"%06d","pad":"`+strings.Repeat("x", 100)+`"}`+"\n"))
	for _, reopen := range []bool{false, true} {
		r := b.reader(nil)
		if _, err := r.read(); err != nil {
			t.Fatal(err)
		}
		if reopen {
			r.close()
		}
		b.put("a.ndjson", fmt.Sprintf(`{"new":%t}`, reopen))
		rest := r.all()
		if !reopen { // an open connection still gives the old version; then the next listing tells
			rest = r.all()
		}
		check(t, short(rest), []string{fmt.Sprintf(`line a.ndjson {"new":%t}`, reopen)})
		check(t, short(r.all()), nil)
		b.put("a.ndjson", numbered(50_000, `{"old":"%06d","pad":"`+strings.Repeat("x", 100)+`"}`+"\n"))
	}
}

// goneInMidRead deletes an object of which some lines are published.
func goneInMidRead(b *bucket) {
	t := b.t
	b.put("a.ndjson", numbered(50_000, `{"n":"%06d","pad":"`+strings.Repeat("x", 100)+`"}`+"\n"))
	r := b.reader(nil)
	if events, err := r.read(); err != nil || len(events) != 1000 {
		t.Fatal(len(events), err)
	}
	r.close()
	b.remove("a.ndjson")
	check(t, short(r.all()), []string{"deleted a.ndjson "})
	check(t, short(r.all()), nil)
}

// reset is what deleting a connector's offsets does: all is read again, and what
// went before it still is seen as deleted.
func reset(b *bucket) {
	t := b.t
	b.put("a.md", "a")
	b.put("b.md", "b")
	r := b.reader(nil)
	check(t, short(r.all()), []string{"object a.md a", "object b.md b"})
	b.remove("b.md")
	clear(r.positions)
	check(t, short(r.all()), []string{"object a.md a", "deleted b.md "})
	check(t, short(r.all()), nil)
}

func gzipped(b *bucket) {
	t := b.t
	lines := numbered(3000, `{"n":%d}`+"\n")
	whole := compress(t, lines)
	b.put("a.ndjson", whole)                                    // whatever its name
	b.put("b.ndjson.gz", compress(t, "1\n")+compress(t, "2\n")) // two members
	b.put("c.ndjson.gz", whole[:len(whole)/2])                  // cut off
	b.put("d.ndjson.gz", whole[:len(whole)-8]+"12345678")       // a wrong sum
	b.put("e.ndjson.gz", "\x1f\x8bnot gzip")
	b.put("f.md.gz", compress(t, "# f"))
	b.put("g.csv.gz", compress(t, "a\n"+lines))
	r := b.reader(nil)
	n := map[string]int{}
	for {
		events, err := r.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			n[e.Subject]++
			if e.Subject == "f.md.gz" && string(e.Data) != "# f" {
				t.Errorf("%+v", e)
			}
		}
		r.close() // go on inside
	}
	cut := n["c.ndjson.gz"]
	if cut < 500 || cut >= 3000 {
		t.Errorf("%d lines before the cut", cut)
	}
	want := map[string]int{"a.ndjson": 3000, "b.ndjson.gz": 2, "c.ndjson.gz": cut, "d.ndjson.gz": 3000, "f.md.gz": 1, "g.csv.gz": 3000}
	if !maps.Equal(n, want) {
		t.Errorf("%v, not %v", n, want)
	}
	var failed []string
	for _, f := range r.failed {
		failed = append(failed, f.Origin+": "+f.Err.Error())
	}
	check(t, failed, []string{
		"s3://gzip/c.ndjson.gz: gzip: unexpected EOF", "s3://gzip/d.ndjson.gz: gzip: gzip: invalid checksum", "s3://gzip/e.ndjson.gz: gzip: gzip: invalid header",
	})
}

// csvRecords needs the header again wherever it goes on.
func csvRecords(b *bucket) {
	t := b.t
	b.put("a.csv", "x;y\n"+numbered(2500, "%d;\"a\nb\"\n"))
	r := b.reader(map[string]any{"csv.delimiter": ";", "key": "x"})
	var got []event.Event
	for {
		events, err := r.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, events...)
		r.close()
	}
	if len(got) != 2500 || r.answers < 3 {
		t.Fatalf("%d records in %d answers", len(got), r.answers)
	}
	for i := range got {
		if want := fmt.Sprintf(`{"x":"%d","y":"a\nb"}`, i); string(got[i].Data) != want || got[i].Key != strconv.Itoa(i) {
			t.Fatalf("record %d: %s", i, got[i].Data)
		}
	}
}

// bigObject is far larger than what is kept of it, and so is one of its lines.
func bigObject(b *bucket) {
	t := b.t
	const size, long = 96 << 20, 40 << 20
	line := `{"pad":"` + strings.Repeat("x", 1000) + `"}` + "\n"
	body := io.MultiReader(
		io.LimitReader(repeat(line), int64(size/len(line)*len(line))), io.LimitReader(repeat("y"), long), strings.NewReader("\n{\"last\":1}\n"))
	if _, err := b.client.PutObject(t.Context(), b.name, "a.ndjson", body, -1, minio.PutObjectOptions{PartSize: 16 << 20}); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	r := b.reader(map[string]any{"max.line.bytes": "1MiB"})
	n, peak, last := 0, uint64(0), ""
	for {
		events, err := r.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		n += len(events)
		if len(events) > 0 {
			last = string(events[len(events)-1].Data)
		}
		if r.answers%8 == 0 {
			runtime.GC() // what is held, not what is not yet collected
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
		}
	}
	if n != size/len(line)+1 || last != `{"last":1}` || len(r.failed) != 1 {
		t.Errorf("%d lines, the last %s, %d failures", n, last, len(r.failed))
	}
	if held := int64(peak) - int64(before.HeapAlloc); held > 24<<20 {
		t.Errorf("%d MiB are held", held>>20)
	}
}

// repeat is text without an end.
func repeat(text string) io.Reader { return &repeater{text: text} }

type repeater struct {
	text string
	at   int
}

func (r *repeater) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(p), nil
}

func wrongConfig(b *bucket) {
	t := b.t
	b.put("a.md", "a")
	for _, tc := range []struct {
		key, value, want string
	}{
		{"aws.secret.access.key", "sesame", "aws.secret.access.key: "},
		{"aws.access.key.id", "nobody", "aws.access.key.id: "},
		{"s3.bucket.name", "not-there", "s3.bucket.name: there is no bucket not-there"},
		{"store.url", "http://127.0.0.1:1", "store.url: "},
	} {
		r := b.reader(map[string]any{tc.key: tc.value})
		if _, err := r.read(); err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s=%s: %v", tc.key, tc.value, err)
		}
	}
	for _, tc := range []struct {
		key   string
		value any
		want  string
	}{
		{"store.url", "ftp://x", "store.url: must be an http or https URL without a path, such as https://minio.example.com:9000"},
		{"store.url", "https://u:p@x", "store.url: must not hold a user or password: use aws.access.key.id and aws.secret.access.key"},
		{"aws.secret.access.key", "", "aws.secret.access.key: is required with aws.access.key.id"},
		{"csv.delimiter", "||", "csv.delimiter: must be one ASCII character other than a quote or line end, or tab"},
	} {
		if err := s3.Plugin().Source.Check(b.config(map[string]any{tc.key: tc.value})); err == nil || err.Error() != tc.want {
			t.Errorf("%s=%v: %v", tc.key, tc.value, err)
		}
	}
}

// through puts a proxy before the store that changes its answers to listings.
func (b *bucket) through(t *testing.T, change func(query url.Values, body []byte) (status int, changed []byte)) map[string]any {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", b.addr, r.In.Host // the host header stays: it is signed
		},
		ModifyResponse: func(resp *http.Response) error {
			if resp.Request.URL.Query().Get("list-type") != "2" {
				return nil
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			resp.StatusCode, body = change(resp.Request.URL.Query(), body)
			resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return map[string]any{"store.url": server.URL}
}

// partOfAListing fails at its second page: nothing was deleted by that.
func partOfAListing(b *bucket) {
	t := b.t
	for i := range 1200 {
		b.put(fmt.Sprintf("k%04d", i), "x")
	}
	r := b.reader(nil)
	if n := len(r.all()); n != 1200 {
		t.Fatal(n)
	}
	maps.Copy(r.config, b.through(t, func(q url.Values, body []byte) (int, []byte) {
		if q.Get("continuation-token") != "" {
			return http.StatusBadRequest, []byte(`<Error><Code>Broken</Code><Message>no more</Message></Error>`)
		}
		return http.StatusOK, body
	}))
	if events, err := r.read(); err == nil || len(events) != 0 || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "no more") {
		t.Error(short(events), err)
	}
}

// anotherOrder lists backwards, as a store may that keeps no order.
func anotherOrder(b *bucket) {
	t := b.t
	for i := range 50 {
		b.put(fmt.Sprintf("k%02d.md", i), strconv.Itoa(i))
	}
	entry := regexp.MustCompile(`(?s)<Contents>.*?</Contents>`)
	r := b.reader(b.through(t, func(_ url.Values, body []byte) (int, []byte) {
		entries := entry.FindAll(body, -1)
		if len(entries) == 0 {
			return http.StatusOK, body
		}
		start := bytes.Index(body, entries[0])
		rest := entry.ReplaceAll(body[start:], nil)
		slices.Reverse(entries)
		return http.StatusOK, slices.Concat(body[:start], bytes.Join(entries, nil), rest)
	}))
	if first := r.all(); len(first) != 50 || first[0].Key != "k49.md" {
		t.Fatalf("%d: %v", len(first), short(first))
	}
	b.put("k30.md", "new")
	b.remove("k10.md")
	check(t, short(r.all()), []string{"object k30.md new", "deleted k10.md "})
	check(t, short(r.all()), nil)
}

// killedStore dies in mid-read and comes back.
func killedStore(s *server, b *bucket) {
	t := b.t
	const n = 60_000
	b.put("a.ndjson", numbered(n, `{"n":"%06d","pad":"`+strings.Repeat("x", 300)+`"}`+"\n"))
	r := b.reader(nil)
	seen := map[string]bool{}
	for kills := 0; ; {
		events, err := r.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if kills > 3 {
				t.Fatal(err)
			}
			s.start(t)
			continue
		}
		for i := range events {
			if seen[events[i].ID] {
				t.Fatal("read twice:", events[i].ID)
			}
			seen[events[i].ID] = true
		}
		if kills < 3 && len(seen) > (kills+1)*n/5 {
			kills++
			s.kill(t)
		}
	}
	if len(seen) != n {
		t.Errorf("%d lines, not %d", len(seen), n)
	}
}

// TestNeedsState holds that the source refuses to run without a memory.
func TestNeedsState(t *testing.T) {
	t.Parallel()
	_, err := s3.Plugin().Source.Open(t.Context(), map[string]any{"s3.bucket.name": "b", "topic": "t"}, connectors.Env{})
	if err == nil || !strings.Contains(err.Error(), "state") {
		t.Error(err)
	}
}
