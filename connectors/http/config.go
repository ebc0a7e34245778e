package http

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"millrace/connectors"
	"millrace/schemas/spec"
)

// The modes of the CloudEvents HTTP binding.
const (
	binary     = "binary"
	structured = "structured"
	batched    = "batch"
)

type config struct {
	URL          string            `json:"url" doc:"Where events are sent: an http or https URL." spec:"required,importance=high"`
	Method       string            `json:"method" doc:"The request's method." default:"POST" spec:"enum=POST|PUT|PATCH"`
	Mode         string            `json:"mode" doc:"binary: the data is the body, the attributes are ce- headers; structured: the body is the event as JSON; batch: a JSON array of events." default:"binary" spec:"enum=binary|structured|batch,importance=high"`
	Batch        int               `json:"batch" doc:"At most so many events in one request of mode batch." default:"100" spec:"min=1,max=10000"`
	Headers      map[string]string `json:"headers" doc:"Further headers of every request, as a JSON object or as keys such as headers.X-Tenant." spec:"secret"`
	Timeout      time.Duration     `json:"timeout" doc:"How long one request may take, its answer included." default:"30s" spec:"min=1ms,max=1h"`
	AllowPrivate bool              `json:"allow.private" doc:"Whether the URL may lead to a loopback, private or link-local address." default:"false" spec:"group=Security"`

	User     string      `json:"auth.user" doc:"The user of basic authentication." spec:"group=Security"`
	Password spec.Secret `json:"auth.password" doc:"The password of basic authentication." spec:"group=Security"`
	Token    spec.Secret `json:"auth.token" doc:"The token of bearer authentication." spec:"group=Security"`
}

// Check says what tags cannot.
func (c *config) Check() error {
	var problems []spec.Problem
	add := func(path, msg string) { problems = append(problems, spec.Problem{Path: path, Msg: msg}) }
	if !strings.Contains(c.URL, "${") {
		u, err := url.Parse(c.URL)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			add("url", "must be an http or https URL such as https://example.com/events")
		case u.User != nil:
			add("url", "must not hold a user or password: use auth.user and auth.password")
		}
	}
	if c.Token != "" && c.User != "" {
		add("auth.token", "cannot be set together with auth.user: leave one out")
	}
	if c.Password != "" && c.User == "" {
		add("auth.user", "is required with auth.password")
	}
	for name, value := range c.Headers {
		lower := strings.ToLower(name)
		switch {
		case !validHeader(name) || strings.ContainsAny(value, "\r\n\x00"):
			add("headers."+name, "is not a header, or its value has a line end")
		case strings.HasPrefix(lower, "ce-") || lower == "content-type" || lower == "content-length" || lower == "host" || lower == "transfer-encoding":
			add("headers."+name, "is set by the sink itself")
		case lower == "authorization" && (c.Token != "" || c.User != ""):
			add("headers."+name, "cannot be set together with auth keys: leave one out")
		}
	}
	if problems != nil {
		return &spec.Error{Problems: problems}
	}
	return nil
}

// validHeader reports whether name is a token of HTTP.
func validHeader(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// Plugin is the http sink.
func Plugin() connectors.Plugin {
	sink := connectors.SinkOf(open)
	sink.Guarantee = "At least once, in order per queue: an event is done when its request was answered 2xx. A receiver that has seen source and id before can drop the repetition."
	return connectors.Plugin{
		Name:    "http",
		Summary: "Sends events to an HTTP endpoint: CloudEvents in binary, structured or batch mode.",
		Docs: `Events are sent one after the other, in mode batch in requests of up to ` + "`batch`" + ` events.

- 2xx: done.
- 408, 425, 429, 5xx, timeouts and network errors: tried again as the retry strategy says, after Retry-After (seconds or a date) where the answer has one.
  After 429, 502 to 504, an answer with Retry-After and network errors the whole queue waits; after others the key does.
- 410 and all other 4xx: fails at once and for good, and goes where onError says. In mode batch that fails every event of the request.
- Redirects are not followed; they fail for good.

Addresses that are loopback, private, link-local (as of cloud metadata services), shared or otherwise not of the public internet are refused after the name was resolved, at each
connection, unless ` + "`allow.private`" + ` is true. Proxies of the environment are not used.

An event's data is sent as it is. A tombstone has no body in binary mode and no data otherwise. Its key is the attribute partitionkey; source and
id tell repetitions.

The rule target ` + "`{http: {url: …}}`" + ` takes the same keys.
`,
		Sink: sink,
	}
}

// auth sets the headers that the config asks for.
func (c *config) auth(r *http.Request) {
	for name, value := range c.Headers {
		r.Header.Set(name, value)
	}
	switch {
	case c.Token != "":
		r.Header.Set("Authorization", "Bearer "+c.Token.Reveal())
	case c.User != "":
		r.SetBasicAuth(c.User, c.Password.Reveal())
	}
}
