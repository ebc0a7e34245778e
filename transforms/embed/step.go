package embed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"millrace/bus/event"
)

// Summary and Docs describe the step, Example shows it.
const (
	Summary = "Adds a vector to each chunk: by an OpenAI-compatible endpoint, or lexical without any."
	Docs    = `Embeds ` + "`data.text`" + `, with ` + "`data.title`" + ` and ` + "`data.titlePath`" + ` before it where they are there, and adds ` + "`data.embedding`" + `, a list of numbers, and
` + "`data.embedder`" + `: ` + "`{\"model\", \"dims\", \"kind\"}`" + `. Where they are there already, they are replaced. Empty documents (a total of 0) and tombstones pass.

**lexical-hash-v1** needs neither key nor network. It is lexical, not semantic: it matches words, not meaning (English words without their
commonest endings; pairs of Chinese, Japanese and Korean characters). Vectors have length 1, and depend on the text alone.

**With url** many chunks go in one request, in the order of events. Answers are checked: as many as asked, by index, equally long, finite, not zero.

- 400, 413, 422: the texts are tried in halves, so that one bad chunk fails alone, and for good.
- Anything else, 401, 429 and 5xx among it, and network errors: the batch is tried again as the retry strategy says, after Retry-After where the answer has one.
- Redirects are not followed. Addresses that are not of the public internet are refused unless allowPrivate is true.

The key must be a reference such as ` + "`${env:OPENAI_API_KEY}`" + `; it is resolved at each request and shown nowhere.`
	Example = `embed: {url: "https://api.openai.com/v1", model: text-embedding-3-small, apiKey: "${env:OPENAI_API_KEY}"}`
)

// Step embeds chunks. It may be used by many goroutines at once.
type Step struct{ e Embedder }

// NewStep makes a step of an embedder.
func NewStep(e Embedder) *Step { return &Step{e} }

// Result is what became of one event.
type Result struct {
	Event event.Event
	Err   error // for good
}

// Apply embeds events, and answers in their order. The error is about all of
// them; see Error.
func (s *Step) Apply(ctx context.Context, in []event.Event) ([]Result, error) {
	out := make([]Result, len(in))
	var texts []string
	var of []int
	for i := range in {
		out[i].Event = in[i]
		if in[i].Tombstone() {
			continue
		}
		text, ok, err := passage(&in[i])
		if err != nil {
			out[i].Err = err
			continue
		}
		if ok {
			texts, of = append(texts, text), append(of, i)
		}
	}
	if len(texts) == 0 {
		return out, nil
	}
	vectors, err := s.e.Embed(ctx, texts)
	if err != nil {
		return nil, err
	}
	info := s.e.Info()
	for n, i := range of {
		if out[i].Err = vectors[n].Err; out[i].Err == nil {
			out[i].Event.Data, out[i].Err = With(in[i].Data, vectors[n].Values, info)
		}
	}
	return out, nil
}

// passage is the text to embed; ok is false for an empty document.
func passage(e *event.Event) (text string, ok bool, err error) {
	if !e.JSON() {
		return "", false, fmt.Errorf("data is not JSON (%s): put a chunk step before", e.ContentType)
	}
	var d struct {
		Title     string   `json:"title"`
		TitlePath []string `json:"titlePath"`
		Text      *string  `json:"text"`
		Total     *int     `json:"total"`
	}
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return "", false, fmt.Errorf("data is no chunk: %w", err)
	}
	if d.Total != nil && *d.Total == 0 {
		return "", false, nil
	}
	if d.Text == nil {
		return "", false, errors.New("data.text is not there: put a chunk step before, or set data.text")
	}
	return Passage(d.Title, d.TitlePath, *d.Text), true, nil
}

// With returns a copy of a JSON object with the members embedding and embedder set.
func With(data []byte, vector []float32, info Info) ([]byte, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return nil, errors.New("data is no object")
	}
	if bytes.Contains(data, []byte(`"embedd`)) { // rarely: those of an earlier step
		var m map[string]json.RawMessage
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, err
		}
		delete(m, "embedding")
		delete(m, "embedder")
		var err error
		if data, err = json.Marshal(m); err != nil {
			return nil, err
		}
	}
	out := make([]byte, 0, len(data)+12*len(vector)+128)
	out = append(out, data[:len(data)-1]...)
	if len(bytes.TrimSpace(data[1:len(data)-1])) > 0 {
		out = append(out, ',')
	}
	out = append(out, `"embedding":[`...)
	for i, v := range vector {
		if i > 0 {
			out = append(out, ',')
		}
		if v == 0 {
			out = append(out, '0') // most of a lexical vector
			continue
		}
		format := byte('f')
		if a := math.Abs(float64(v)); a < 1e-6 || a >= 1e21 {
			format = 'e'
		}
		out = strconv.AppendFloat(out, float64(v), format, -1, 32)
	}
	info.Dims = len(vector)
	described, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	out = append(append(out, `],"embedder":`...), described...)
	return append(out, '}'), nil
}
