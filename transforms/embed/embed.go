package embed

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"millrace/schemas/spec"
)

// Model names the embedder that needs no network.
const Model = "lexical-hash-v1"

// Config says which embedder is wanted. The zero value is the lexical one.
type Config struct {
	Model        string        `json:"model" doc:"lexical-hash-v1, or with url the name of the endpoint's model." default:"lexical-hash-v1"`
	URL          string        `json:"url" doc:"An endpoint that speaks OpenAI's API: its base such as https://api.openai.com/v1, or the whole URL that ends in /embeddings."`
	APIKey       spec.Secret   `json:"apiKey" doc:"The endpoint's key, as a reference such as ${env:OPENAI_API_KEY}."`
	Dimensions   int           `json:"dimensions" doc:"Length of the vectors: of lexical-hash-v1, 1024 if not set; of an endpoint's model it is sent along, and every answer must have it." spec:"min=0,max=8192"`
	Batch        int           `json:"batch" doc:"The most texts in one request." default:"64" spec:"min=1,max=2048"`
	Timeout      time.Duration `json:"timeout" doc:"How long one request may take." default:"60s" spec:"min=1ms,max=10m"`
	AllowPrivate bool          `json:"allowPrivate" doc:"Whether the URL may lead to a loopback, private or link-local address." default:"false"`
	NGrams       bool          `json:"ngrams" doc:"lexical-hash-v1 also compares the parts of words, of 3 to 5 characters: it forgives misspellings and costs precision." default:"false"`
}

// Info says what made a vector.
type Info struct {
	Model string `json:"model"`
	Dims  int    `json:"dims"` // 0 = not known before the first answer
	Kind  string `json:"kind"` // "lexical" or "http"
}

// Vector is what became of one text: its vector, or why it has none. Such an
// error is for good: that text will not get one.
type Vector struct {
	Values []float32
	Err    error
}

// Embedder makes vectors. Embedders may be used by many goroutines at once.
type Embedder interface {
	Info() Info
	// Embed answers in the order of texts. The error is about all of them, and may
	// pass by trying again: see Error.
	Embed(ctx context.Context, texts []string) ([]Vector, error)
}

// Error is a failure of an endpoint that says nothing of single texts.
type Error struct {
	Status int           // of the answer; 0 = there was none
	After  time.Duration // the pause that the endpoint asked for; 0 = none
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// RetryAfter is the pause that the endpoint asked for.
func (e *Error) RetryAfter() time.Duration { return e.After }

// Check says what is wrong with a config, as a *spec.Error. References may be
// unresolved.
func (c *Config) Check() error {
	if c.URL == "" {
		switch {
		case c.Model != "" && c.Model != Model:
			return wrong("url", fmt.Sprintf("is required for the model %s: an endpoint such as https://api.openai.com/v1; without one there is %s", c.Model, Model))
		case c.APIKey != "":
			return wrong("apiKey", "goes with url: leave it out")
		case c.Dimensions != 0 && c.Dimensions < 16:
			return wrong("dimensions", fmt.Sprintf("%d is too few: at least 16", c.Dimensions))
		}
		return nil
	}
	if c.Model == "" || c.Model == Model {
		return wrong("model", "is required with url: the name of the endpoint's model, such as text-embedding-3-small")
	}
	if c.NGrams {
		return wrong("ngrams", "is for "+Model+": leave it out with url")
	}
	if strings.Contains(c.URL, "${") {
		return nil
	}
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return wrong("url", "must be an http or https URL such as https://api.openai.com/v1")
	case u.User != nil:
		return wrong("url", "must not hold a user or password: use apiKey")
	}
	return nil
}

func wrong(key, msg string) error {
	return &spec.Error{Problems: []spec.Problem{{Path: key, Msg: msg}}}
}

// New makes an embedder. It asks nobody yet; references in URL and APIKey are
// resolved at each request.
func New(c Config) (Embedder, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.URL == "" {
		return NewLexical(c.Dimensions, c.NGrams), nil
	}
	return newHTTP(c), nil
}
