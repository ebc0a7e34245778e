package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
)

type sink struct {
	cfg    config
	client *http.Client
	where  string // the URL as errors show it
	now    func() time.Time
	body   []byte // of the request in the making
}

func open(_ context.Context, cfg config, env connectors.Env) (connectors.Sink, error) {
	s := &sink{cfg: cfg, client: newClient(&cfg), where: shown(cfg.URL), now: env.Now}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// shown is a URL without path and query: those of a hook are its secret, which the
// config may hold by reference.
func shown(full string) string {
	u, err := url.Parse(full)
	if err != nil {
		return "the URL"
	}
	return u.Scheme + "://" + u.Host
}

// bare is err without the URL that net/http and net/url put before it.
func bare(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

// errBehind fails an event whose key an event before it is stuck with.
var errBehind = errors.New("an earlier event of this key failed")

// targetError marks a failure that other events would meet as well.
type targetError struct{ err error }

func (e targetError) Error() string { return e.err.Error() }
func (e targetError) Unwrap() error { return e.err }

// Write sends the records in order. Behind one that fails its key's others fail
// too, so that a key keeps its order; behind one that says the target is out of
// reach or busy all do. Invariant 4.
func (s *sink) Write(ctx context.Context, records []event.Record) error {
	size := 1
	if s.cfg.Mode == batched {
		size = s.cfg.Batch
	}
	failed := map[int]error{}
	stuck := map[string]bool{} // keys
	chunk := make([]int, 0, size)
	for next := 0; next < len(records); {
		chunk = chunk[:0]
		for ; next < len(records) && len(chunk) < size; next++ {
			if stuck[records[next].Key] {
				failed[next] = errBehind
				continue
			}
			chunk = append(chunk, next)
		}
		if len(chunk) == 0 {
			break
		}
		err := s.send(ctx, records, chunk)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, all := errors.AsType[targetError](err)
		if all && chunk[0] == 0 { // nothing was taken
			return err
		}
		for _, i := range chunk {
			failed[i] = err
			if key := records[i].Key; key != "" {
				stuck[key] = true
			}
		}
		for ; all && next < len(records); next++ {
			failed[next] = err
		}
	}
	if len(failed) > 0 {
		return &connectors.BatchError{Failed: failed}
	}
	return nil
}

// Flush has nothing to do: what was answered 2xx is done.
func (s *sink) Flush(ctx context.Context) error { return ctx.Err() }

// Close drops idle connections.
func (s *sink) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// send makes one request of the numbered records and judges its answer.
func (s *sink) send(ctx context.Context, records []event.Record, numbers []int) error {
	req, err := s.request(ctx, records, numbers)
	if err != nil {
		return connectors.Permanent(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if errors.Is(err, ErrPrivate) {
			return connectors.Permanent(fmt.Errorf("url: %w", bare(err)))
		}
		return targetError{fmt.Errorf("%s %s: %w", s.cfg.Method, s.where, bare(err))}
	}
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // read to its end, a connection is used again; what is longer costs the connection
	_ = resp.Body.Close()                                    // the answer counts, not how it ends
	return s.judge(resp, said)
}

// judge says what an answer means.
func (s *sink) judge(resp *http.Response, said []byte) error {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	err := fmt.Errorf("%s answered %s%s", s.where, resp.Status, excerpt(said))
	switch {
	case code >= 300 && code < 400:
		return connectors.Permanent(fmt.Errorf("%w: redirects are not followed: set url to %s", err, resp.Header.Get("Location")))
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		after, asked := connectors.RetryAfter(resp.Header.Get("Retry-After"), s.now())
		if asked {
			err = &connectors.RetryError{After: after, Err: err}
		}
		if asked || code == http.StatusTooManyRequests || code >= http.StatusBadGateway && code <= http.StatusGatewayTimeout {
			return targetError{err}
		}
		return err
	default:
		return connectors.Permanent(err)
	}
}

// excerpt is the beginning of an answer, on one line.
func excerpt(said []byte) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(said[:min(len(said), 200)]), "")), " ")
	if text == "" {
		return ""
	}
	return ": " + text
}

// request makes the request of the configured mode.
func (s *sink) request(ctx context.Context, records []event.Record, numbers []int) (*http.Request, error) {
	e := &records[numbers[0]].Event
	contentType := e.ContentType
	switch s.cfg.Mode {
	case binary:
		s.body = append(s.body[:0], e.Data...)
		if contentType == "" && len(e.Data) > 0 {
			contentType = "application/json"
		}
	case structured:
		s.body = event.AppendJSON(s.body[:0], e)
		contentType = event.ContentTypeJSON + "; charset=utf-8"
	default:
		s.body = append(s.body[:0], '[')
		for n, i := range numbers {
			if n > 0 {
				s.body = append(s.body, ',')
			}
			s.body = event.AppendJSON(s.body, &records[i].Event)
		}
		s.body = append(s.body, ']')
		contentType = event.ContentTypeBatch + "; charset=utf-8"
	}
	// The transport may read a body after Do has returned, so each request has its own.
	req, err := http.NewRequestWithContext(ctx, s.cfg.Method, s.cfg.URL, bytes.NewReader(bytes.Clone(s.body)))
	if err != nil {
		return nil, fmt.Errorf("url: %w", bare(err))
	}
	s.cfg.auth(req)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	req.Header.Set("User-Agent", "millrace")
	if s.cfg.Mode == binary {
		setAttributes(req.Header, e)
	}
	return req, nil
}

// setAttributes puts an event's attributes into ce- headers.
func setAttributes(h http.Header, e *event.Event) {
	set := func(name, value string) {
		if value != "" {
			h["Ce-"+strings.ToUpper(name[:1])+name[1:]] = []string{percentEncode(value)}
		}
	}
	set("specversion", "1.0")
	for _, name := range []string{"id", "source", "type", "subject", "time", "dataschema", "partitionkey"} {
		value, _ := e.Get(name)
		set(name, value)
	}
	for i := range e.Ext {
		set(e.Ext[i].Name, e.Ext[i].Value)
	}
}

// percentEncode encodes as the HTTP binding says: all but printable ASCII, and
// space, double quote and percent.
func percentEncode(s string) string {
	const hex = "0123456789ABCDEF"
	var out []byte
	for i := range len(s) {
		c := s[i]
		if c > ' ' && c < 0x7f && c != '"' && c != '%' {
			if out != nil {
				out = append(out, c)
			}
			continue
		}
		if out == nil {
			out = append(make([]byte, 0, len(s)+16), s[:i]...)
		}
		out = append(out, '%', hex[c>>4], hex[c&15])
	}
	if out == nil {
		return s
	}
	return string(out)
}
