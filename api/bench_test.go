package api

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"millrace/bus"
)

// benchServer is a server with a topic whose appends wait for no disk, so that the
// api's own work shows.
func benchServer(b *testing.B) http.Handler {
	b.Helper()
	client, err := bus.Open(b.TempDir(), bus.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := client.Close(); err != nil {
			b.Error(err)
		}
	})
	s, err := New(Options{Client: client})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := client.CreateTopic(b.Context(), bus.Topic{Name: "t", Queues: 4, Durability: bus.Async}); err != nil {
		b.Fatal(err)
	}
	return s.Handler()
}

func post(b *testing.B, h http.Handler, header http.Header, body []byte) {
	b.Helper()
	r := httptest.NewRequest(http.MethodPost, "/topics/t/events", bytes.NewReader(body))
	r.Header = header
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if rec.Code != http.StatusOK {
		b.Fatal(rec.Body)
	}
}

// BenchmarkPostBatch publishes 500 events of 1 KB in one request.
func BenchmarkPostBatch(b *testing.B) {
	h := benchServer(b)
	var body bytes.Buffer
	const n = 500
	for i := range n {
		sep := ","
		if i == 0 {
			sep = "["
		}
		fmt.Fprintf(&body, `%s{"specversion":"1.0","id":"%d","source":"/bench","type":"bench","partitionkey":"k%d","data":{"amount":%d,"text":%q}}`, sep, i, i, i, strings.Repeat("x", 880))
	}
	body.WriteByte(']')
	b.SetBytes(int64(body.Len()))
	for b.Loop() {
		post(b, h, http.Header{"Content-Type": {"application/cloudevents-batch+json"}}, body.Bytes())
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkPostBinary publishes one event of 1 KB in binary mode.
func BenchmarkPostBinary(b *testing.B) {
	h := benchServer(b)
	body := []byte(`{"text":"` + strings.Repeat("x", 1000) + `"}`)
	header := http.Header{
		"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Id": {"1"},
		"Ce-Source": {"/bench"}, "Ce-Type": {"bench"}, "Ce-Partitionkey": {"k"},
	}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		post(b, h, header, body)
	}
}

// BenchmarkBrowse reads pages of 1000 events of 1 KB.
func BenchmarkBrowse(b *testing.B) {
	h := benchServer(b)
	var body bytes.Buffer
	const n = 1000
	for i := range n {
		sep := ","
		if i == 0 {
			sep = "["
		}
		fmt.Fprintf(&body, `%s{"specversion":"1.0","id":"%d","source":"/bench","type":"bench","partitionkey":"k%d","data":{"text":%q}}`, sep, i, i, strings.Repeat("x", 900))
	}
	body.WriteByte(']')
	post(b, h, http.Header{"Content-Type": {"application/cloudevents-batch+json"}}, body.Bytes())
	browse := func() int {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/topics/t/events?limit=1000&wait=1s", http.NoBody))
		return rec.Body.Len()
	}
	for browse() < body.Len() { // readers do not pass what is synced
	}
	b.SetBytes(int64(browse()))
	for b.Loop() {
		browse()
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "events/s")
}
