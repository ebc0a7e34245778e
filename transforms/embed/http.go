package embed

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"millrace/connectors/guard"
	"millrace/schemas/spec"
)

// httpEmbedder asks an endpoint. What was embedded before a request failed is kept
// for the next try, so that a long batch gets on while an endpoint is shaky.
type httpEmbedder struct {
	c      Config
	client *http.Client

	mu   sync.Mutex
	dims int                  // of the answers; 0 = none yet
	kept map[string][]float32 // by text; taken out when used
}

// maxKept bounds kept.
const maxKept = 4096

func newHTTP(c Config) *httpEmbedder {
	if c.Batch == 0 {
		c.Batch = 64
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	dialer := &net.Dialer{Timeout: min(c.Timeout, 10*time.Second)}
	if !c.AllowPrivate {
		dialer.Control = guard.Control
	}
	return &httpEmbedder{c: c, dims: c.Dimensions, kept: map[string][]float32{}, client: &http.Client{
		Timeout: c.Timeout,
		// Idle connections end soon: an embedder has no Close.
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: 5 * time.Second,
			TLSHandshakeTimeout: min(c.Timeout, 10*time.Second), MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Info implements Embedder.
func (h *httpEmbedder) Info() Info {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Info{Model: h.c.Model, Dims: h.dims, Kind: "http"}
}

// Embed implements Embedder. Equal texts are sent once, empty ones not at all.
func (h *httpEmbedder) Embed(ctx context.Context, texts []string) ([]Vector, error) {
	out := make([]Vector, len(texts))
	where := map[string][]int{}
	var todo []string
	for i, text := range texts {
		if strings.TrimSpace(text) == "" {
			out[i].Err = errors.New("there is no text to embed")
			continue
		}
		if _, seen := where[text]; !seen {
			todo = append(todo, text)
		}
		where[text] = append(where[text], i)
	}
	done := map[string]Vector{}
	todo = h.recall(todo, done)
	r := run{h: h, done: done}
	err := func() error {
		for len(todo) > 0 {
			n := min(h.c.Batch, len(todo))
			if err := r.embed(ctx, todo[:n]); err != nil {
				return err
			}
			todo = todo[n:]
		}
		return nil
	}()
	if err != nil {
		h.remember(done)
		return nil, err
	}
	for text, v := range done {
		for _, i := range where[text] {
			out[i] = v
		}
	}
	return out, nil
}

// recall takes what is kept out of texts.
func (h *httpEmbedder) recall(texts []string, done map[string]Vector) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var rest []string
	for _, text := range texts {
		if v, ok := h.kept[text]; ok {
			done[text] = Vector{Values: v}
			delete(h.kept, text)
		} else {
			rest = append(rest, text)
		}
	}
	return rest
}

func (h *httpEmbedder) remember(done map[string]Vector) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for text, v := range done {
		if v.Err == nil && len(h.kept) < maxKept {
			h.kept[text] = v.Values
		}
	}
}

// run is one call of Embed.
type run struct {
	h       *httpEmbedder
	done    map[string]Vector
	refused int  // texts that were refused alone
	taken   bool // something was embedded
}

// manyRefused texts and none taken: it is not the texts.
const manyRefused = 4

// embed asks for texts in one request. Where the endpoint refuses them, halves are
// tried, so that one bad text fails alone.
func (r *run) embed(ctx context.Context, texts []string) error {
	vectors, err := r.h.ask(ctx, texts)
	var bad *refusedError
	switch {
	case err == nil:
		r.taken = true
		for i, text := range texts {
			r.done[text] = Vector{Values: vectors[i]}
		}
		return nil
	case !errors.As(err, &bad):
		return err
	case len(texts) > 1:
		if err := r.embed(ctx, texts[:len(texts)/2]); err != nil {
			return err
		}
		return r.embed(ctx, texts[len(texts)/2:])
	}
	if r.refused++; r.refused >= manyRefused && !r.taken {
		return &Error{Status: bad.status, Err: fmt.Errorf("the endpoint refuses every text: %w", err)}
	}
	r.done[texts[0]] = Vector{Err: err}
	return nil
}

// refusedError says that an endpoint did not like what was sent.
type refusedError struct {
	status int
	err    error
}

func (e *refusedError) Error() string { return e.err.Error() }

type request struct {
	Model      string   `json:"model"`
	Input      []string `json:"input"`
	Dimensions int      `json:"dimensions,omitempty"`
	Format     string   `json:"encoding_format"`
}

type response struct {
	Data []struct {
		Index     int    `json:"index"`
		Embedding floats `json:"embedding"`
	} `json:"data"`
}

// floats reads a list of numbers, or base64 of 32-bit ones, little-endian.
type floats []float32

func (f *floats) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return json.Unmarshal(b, (*[]float32)(f))
	}
	raw, err := base64.StdEncoding.DecodeString(strings.Trim(string(b), `"`))
	if err != nil || len(raw)%4 != 0 {
		return errors.New("the embedding is neither a list of numbers nor base64 of them")
	}
	*f = make(floats, len(raw)/4)
	for i := range *f {
		(*f)[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}

// maxAnswer bounds an answer.
const maxAnswer = 256 << 20

func (h *httpEmbedder) ask(ctx context.Context, texts []string) ([][]float32, error) {
	// References are resolved now, not when the config is read: a rule is compiled
	// where its secrets are not needed.
	resolved, err := spec.Resolve(map[string]any{"url": h.c.URL, "apiKey": h.c.APIKey.Reveal()})
	if err != nil {
		return nil, &Error{Err: err}
	}
	url, _ := resolved["url"].(string)
	key, _ := resolved["apiKey"].(string)
	if url = strings.TrimRight(url, "/"); !strings.HasSuffix(url, "/embeddings") {
		url += "/embeddings"
	}
	body, err := json.Marshal(request{Model: h.c.Model, Input: texts, Dimensions: h.c.Dimensions, Format: "float"})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Err: errors.New("url: is no URL")} // err may show it, and a reference may hide a secret
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		if errors.Is(err, guard.ErrPrivate) {
			err = fmt.Errorf("allowPrivate: %w: set allowPrivate to true if that is meant", err)
		}
		return nil, &Error{Err: hide(err, key)}
	}
	defer func() { _ = resp.Body.Close() }() // what was read counts
	if resp.StatusCode != http.StatusOK {
		return nil, judge(resp, key)
	}
	var answer response
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return nil, &Error{Status: resp.StatusCode, Err: fmt.Errorf("the endpoint's answer: %w", err)}
	}
	vectors, err := h.check(&answer, len(texts))
	if err != nil {
		return nil, &Error{Status: resp.StatusCode, Err: fmt.Errorf("the endpoint's answer: %w", err)}
	}
	return vectors, nil
}

// check puts an answer into order and refuses one that is not what was asked for.
func (h *httpEmbedder) check(answer *response, n int) ([][]float32, error) {
	if len(answer.Data) != n {
		return nil, fmt.Errorf("%d embeddings for %d texts", len(answer.Data), n)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([][]float32, n)
	for i := range answer.Data {
		d := &answer.Data[i]
		if d.Index < 0 || d.Index >= n || out[d.Index] != nil {
			return nil, fmt.Errorf("index %d is there twice, or is not one of %d texts", d.Index, n)
		}
		if h.dims == 0 {
			h.dims = len(d.Embedding)
		}
		if len(d.Embedding) != h.dims || h.dims == 0 {
			return nil, fmt.Errorf("an embedding has %d dimensions, not %d", len(d.Embedding), h.dims)
		}
		norm := 0.0
		for _, v := range d.Embedding {
			norm += float64(v) * float64(v)
		}
		if norm == 0 || math.IsNaN(norm) || math.IsInf(norm, 0) {
			return nil, errors.New("an embedding is zero or not finite")
		}
		out[d.Index] = d.Embedding
	}
	return out, nil
}

// judge says what a status means: whether the texts were refused, or the request
// as a whole failed.
func judge(resp *http.Response, key string) error {
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // a part of it is as good
	text := strings.Join(strings.Fields(string(said)), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	err := hide(fmt.Errorf("the endpoint answered %s: %s", resp.Status, text), key)
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return &refusedError{resp.StatusCode, err}
	}
	return &Error{Status: resp.StatusCode, After: retryAfter(resp.Header.Get("Retry-After"), time.Now()), Err: err}
}

// maxAfter bounds what an endpoint may ask for.
const maxAfter = time.Hour

// retryAfter reads seconds or a date; 0 where it is neither.
func retryAfter(value string, now time.Time) time.Duration {
	var d time.Duration
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds >= 0 {
		d = time.Duration(min(seconds, maxAfter.Seconds()) * float64(time.Second))
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxAfter)
}

// hidden is an error whose text shows no key.
type hidden struct {
	text string
	err  error
}

func (e *hidden) Error() string { return e.text }
func (e *hidden) Unwrap() error { return e.err }

func hide(err error, key string) error {
	if key == "" || !strings.Contains(err.Error(), key) {
		return err
	}
	return &hidden{strings.ReplaceAll(err.Error(), key, "[hidden]"), err}
}
