package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"millrace/bus/event"
	"millrace/connectors"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func sinkTo(t *testing.T, target string, config map[string]any) connectors.Sink {
	t.Helper()
	full := map[string]any{"url": target, "allow.private": true}
	maps.Copy(full, config)
	s, err := Plugin().Sink.Open(t.Context(), full, connectors.Env{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func sample(id, key string) event.Record {
	return event.Record{Event: event.Event{
		ID: id, Source: "/s", Type: "t", Key: key, Time: now, ContentType: "application/json", Subject: "ü \"100%\"",
		Ext: []event.Attr{{Name: "flag", Value: "true", Kind: event.Bool}}, Data: []byte(`{"a":1}`),
	}}
}

// TestModes has the CloudEvents SDK read what is sent.
func TestModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"binary", "structured", "batch"} {
		var got []string
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ct := r.Header.Get("Content-Type")
			if r.Header.Get("X-Extra") != "1" || r.Header.Get("Authorization") != "Bearer tok" || r.Method != http.MethodPut {
				t.Error(r.Method, r.Header)
			}
			if strings.HasPrefix(ct, "application/cloudevents-batch+json") {
				events, err := cehttp.NewEventsFromHTTPRequest(r)
				if err != nil {
					t.Error(err)
				}
				got = append(got, strconv.Itoa(len(events)))
				for _, e := range events {
					got = append(got, fmt.Sprintf("%s %s %s %s %s %v", e.ID(), e.Source(), e.Subject(), e.Extensions()["partitionkey"], e.Data(), e.Time().Equal(now)))
				}
				return
			}
			e, err := cehttp.NewEventFromHTTPRequest(r)
			if err != nil {
				t.Error(err)
				return
			}
			subject := e.Subject()
			if mode == "binary" {
				if subject, err = url.PathUnescape(subject); err != nil { // the SDK leaves that to its user
					t.Error(err)
				}
			}
			got = append(got, fmt.Sprintf("%s %s %s %s %s %v", e.ID(), e.Source(), subject, e.Extensions()["partitionkey"], e.Data(), e.Time().Equal(now)))
		}))
		defer server.Close()
		s := sinkTo(t, server.URL, map[string]any{"mode": mode, "batch": 2, "method": "PUT", "headers.X-Extra": "1", "auth.token": "tok"})
		if err := s.Write(t.Context(), []event.Record{sample("1", "k"), sample("2", "k"), sample("3", "k")}); err != nil {
			t.Fatal(mode, err)
		}
		line := func(id string) string { return id + ` /s ü "100%" k {"a":1} true` }
		want := []string{line("1"), line("2"), line("3")}
		if mode == "batch" {
			want = []string{"2", line("1"), line("2"), "1", line("3")}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(mode, diff)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status    int
		after     string
		permanent bool
		pause     time.Duration // -1: none asked for
	}{
		{200, "", false, 0},
		{204, "", false, 0},
		{400, "", true, -1},
		{404, "7", true, -1},
		{410, "", true, -1},
		{302, "", true, -1},
		{408, "", false, -1},
		{425, "", false, -1},
		{429, "7", false, 7 * time.Second},
		{429, "99999999999", false, time.Hour},
		{503, now.Add(90 * time.Second).Format(http.TimeFormat), false, 90 * time.Second},
		{503, now.Add(-time.Second).Format(http.TimeFormat), false, 0},
		{503, "soon", false, -1},
		{500, "", false, -1},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("a redirect was followed")
			}
			w.Header().Set("Retry-After", tc.after)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, "because\nof this")
		}))
		s := sinkTo(t, server.URL, nil)
		err := s.Write(t.Context(), []event.Record{sample("1", "")})
		server.Close()
		if tc.status < 300 {
			if err != nil {
				t.Error(tc, err)
			}
			continue
		}
		if be, ok := errors.AsType[*connectors.BatchError](err); ok {
			err = be.Failed[0]
		}
		retry, asked := errors.AsType[*connectors.RetryError](err)
		if err == nil || connectors.IsPermanent(err) != tc.permanent || asked != (tc.pause >= 0) || asked && retry.After != tc.pause ||
			!strings.Contains(err.Error(), "because of this") || !strings.Contains(err.Error(), strconv.Itoa(tc.status)) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// TestOrder holds which records fail when some are answered badly.
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode    string
		answers map[string]int // by id; 0 closes the connection
		sent    string
		failed  []int // nil: an error for all
	}{
		{"binary", map[string]int{"1": 500}, "0 1 2 4 5", []int{1, 3}},    // 3 has the key of 1
		{"binary", map[string]int{"1": 400}, "0 1 2 4 5", []int{1, 3}},    // likewise
		{"binary", map[string]int{"4": 400}, "0 1 2 3 4 5", []int{4}},     // no key
		{"binary", map[string]int{"2": 503}, "0 1 2", []int{2, 3, 4, 5}},  // the target is busy
		{"binary", map[string]int{"2": 0}, "0 1 2", []int{2, 3, 4, 5}},    // or out of reach
		{"binary", map[string]int{"0": 503}, "0", nil},                    // at once
		{"batch", map[string]int{"0": 400}, "0,1 2,4 5", []int{0, 1, 3}},  // 0 and 1 together
		{"batch", map[string]int{"2": 429}, "0,1 2,3", []int{2, 3, 4, 5}}, // whoever follows
		{"structured", map[string]int{"5": 400}, "0 1 2 3 4 5", []int{5}}, // the last
	} {
		var mu sync.Mutex
		var sent []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			var ids []string
			if events, err := cehttp.NewEventsFromHTTPRequest(r); tc.mode == "batch" && err == nil {
				for _, e := range events {
					ids = append(ids, e.ID())
				}
			} else if e, err := cehttp.NewEventFromHTTPRequest(r); err == nil {
				ids = append(ids, e.ID())
			}
			if n := len(sent); n == 0 || sent[n-1] != strings.Join(ids, ",") { // the transport repeats what a closed connection answers
				sent = append(sent, strings.Join(ids, ","))
			}
			code, bad := tc.answers[ids[0]]
			switch {
			case bad && code == 0:
				panic(http.ErrAbortHandler)
			case bad:
				w.WriteHeader(code)
			}
		}))
		s := sinkTo(t, server.URL, map[string]any{"mode": tc.mode, "batch": 2})
		var recs []event.Record
		for i, key := range []string{"", "k", "x", "k", "", "y"} {
			recs = append(recs, sample(strconv.Itoa(i), key))
		}
		err := s.Write(t.Context(), recs)
		server.Close()
		if got := strings.Join(sent, " "); got != tc.sent {
			t.Errorf("%s %v: sent %s, not %s", tc.mode, tc.answers, got, tc.sent)
		}
		be, ok := errors.AsType[*connectors.BatchError](err)
		if ok != (tc.failed != nil) || err == nil {
			t.Errorf("%s %v: %v", tc.mode, tc.answers, err)
			continue
		}
		if ok {
			if got := slices.Sorted(maps.Keys(be.Failed)); !slices.Equal(got, tc.failed) {
				t.Errorf("%s %v: failed %v, not %v", tc.mode, tc.answers, got, tc.failed)
			}
		}
	}
}

func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a private address was reached") }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		s := sinkTo(t, "http://"+net.JoinHostPort(strings.Trim(host, "[]"), port), map[string]any{"allow.private": false})
		err := s.Write(t.Context(), []event.Record{sample("1", "")})
		be, ok := errors.AsType[*connectors.BatchError](err)
		if !ok || !connectors.IsPermanent(be.Failed[0]) || !errors.Is(be.Failed[0], ErrPrivate) || !strings.Contains(err.Error(), "allow.private") {
			t.Error(host, err)
		}
	}
}

func TestCancelAndTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := sinkTo(t, server.URL, nil).Write(ctx, []event.Record{sample("1", "")}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	err := sinkTo(t, server.URL, map[string]any{"timeout": "20ms"}).Write(t.Context(), []event.Record{sample("1", "")})
	var ne net.Error
	if !errors.As(err, &ne) || !ne.Timeout() || connectors.IsPermanent(err) {
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
		{"url", "ftp://x", "url: must be an http or https URL such as https://example.com/events"},
		{"url", "https://u:p@x/", "url: must not hold a user or password: use auth.user and auth.password"},
		{"url", "${env:URL}", ""},
		{"auth.password", "p", "auth.user: is required with auth.password"},
		{"headers", map[string]any{"a b": "c"}, "headers.a b: is not a header, or its value has a line end"},
		{"headers", `{"a":"b\r\nc: d"}`, "headers.a: is not a header, or its value has a line end"},
		{"headers.Ce-Id", "x", "headers.Ce-Id: is set by the sink itself"},
		{"mode", "batched", `mode: must be one of binary, structured, batch (did you mean "batch"?), not "batched"`},
	} {
		err := Plugin().Sink.Check(map[string]any{"url": "https://example.com", tc.key: tc.value})
		if got := fmt.Sprint(err); got != tc.want && (err != nil || tc.want != "") {
			t.Errorf("%s=%v: %s", tc.key, tc.value, got)
		}
	}
}

func TestPercentEncode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		enc := percentEncode(s)
		if dec, err := url.PathUnescape(enc); err != nil || dec != s || strings.ContainsFunc(enc, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
			t.Fatal(s, enc, err)
		}
	})
}

// TestURLIsNotShown has every way to fail say where, without path and query: those
// of a hook are its secret.
func TestURLIsNotShown(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(server.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, c := range []struct {
		name, url, say string
		private        bool
	}{
		{"refused by the target", server.URL + "/hush?key=hush", server.URL + " answered 400", true},
		{"out of reach", gone.URL + "/hush?key=hush", "POST " + gone.URL + ": dial tcp", true},
		{"private", gone.URL + "/hush?key=hush", "allow.private", false},
		{"no path that can be", gone.URL + "/%hush", "url: must be", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("HOOK", c.url)
			s, err := Plugin().Sink.Open(t.Context(), map[string]any{"url": "${env:HOOK}", "allow.private": c.private}, connectors.Env{})
			if err == nil {
				t.Cleanup(func() { _ = s.Close() })
				err = s.Write(t.Context(), []event.Record{sample("1", "k")})
			}
			text := fmt.Sprint(err)
			if b, ok := errors.AsType[*connectors.BatchError](err); ok {
				text = fmt.Sprint(b.Failed[0])
			}
			if !strings.Contains(text, c.say) || strings.Contains(text, "hush") {
				t.Errorf("%s; want %q and not the path", text, c.say)
			}
		})
	}
}
