package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/schemas/spec"
)

const schemeStandard = "standard-webhooks"

type config struct {
	Topic    string `json:"topic" doc:"The topic that events go to." spec:"required,importance=high"`
	Type     string `json:"type" doc:"The type of events made of requests." default:"millrace.webhook" spec:"group=Events"`
	Source   string `json:"source" doc:"The source of events made of requests; default /webhooks/<connector>." spec:"group=Events"`
	Subject  string `json:"subject" doc:"The subject of events made of requests." spec:"group=Events"`
	Key      string `json:"key" doc:"Path of the field in the data that is the event's key, such as order.id." spec:"group=Events"`
	IDHeader string `json:"id.header" doc:"The header that holds the event's id; default X-GitHub-Delivery, webhook-id or Idempotency-Key, whichever is there." spec:"group=Events"`

	Secret    spec.Secret `json:"signature.secret" doc:"What requests are signed with. Without it every request is taken." spec:"group=Signature,importance=high"`
	Scheme    string      `json:"signature.scheme" doc:"hmac: a header holds the body's HMAC, as the other keys say; standard-webhooks: the headers webhook-id, webhook-timestamp and webhook-signature." default:"hmac" spec:"enum=hmac|standard-webhooks,group=Signature"`
	Header    string      `json:"signature.header" doc:"The header that holds the signature." default:"X-Hub-Signature-256" spec:"group=Signature"`
	Algorithm string      `json:"signature.algorithm" doc:"The HMAC's hash." default:"sha256" spec:"enum=sha256|sha1|sha512,group=Signature"`
	Encoding  string      `json:"signature.encoding" doc:"How the signature is written." default:"hex" spec:"enum=hex|base64,group=Signature"`
	Prefix    string      `json:"signature.prefix" doc:"What stands before the signature in its header." default:"sha256=" spec:"group=Signature"`
}

// Check says what tags cannot.
func (c *config) Check() error {
	var problems []spec.Problem
	if c.Scheme == schemeStandard {
		secret := c.Secret.Reveal()
		if secret == "" {
			problems = append(problems, spec.Problem{Path: "signature.secret", Msg: "is required with signature.scheme " + schemeStandard})
		} else if _, err := standardKey(secret); err != nil && !strings.Contains(secret, "${") {
			problems = append(problems, spec.Problem{Path: "signature.secret", Msg: err.Error()})
		}
	} else if c.Header == "" {
		problems = append(problems, spec.Problem{Path: "signature.header", Msg: "must not be empty"})
	}
	if problems != nil {
		return &spec.Error{Problems: problems}
	}
	return nil
}

// Plugin is the webhook source.
func Plugin() connectors.Plugin {
	source := connectors.ReceiverOf(open)
	source.Guarantee = "A 2xx answer follows the durable append. A sender that tries again gives the same id again where it sends one: at least once."
	return connectors.Plugin{
		Name:    "webhook",
		Summary: "Takes JSON, forms and CloudEvents over HTTP at /webhooks/<connector>, with a check of their signature.",
		Docs: `Every node serves ` + "`POST /webhooks/<connector>`" + `.

- JSON (application/json, text/json, anything ending in +json) becomes an event with that data; a form (application/x-www-form-urlencoded) one whose
  data is a JSON object of its fields, an array where a field comes more than once. What is not valid answers 400, other content types 415.
- CloudEvents pass as they are, but for the topic: in binary mode (ce- headers), structured or as a batch.
- The event's id is the delivery's id from ` + "`id.header`" + `; without one, from X-GitHub-Delivery, webhook-id or Idempotency-Key; without any, the
  hash of body and time of arrival, since two equal bodies may be two events. The headers X-GitHub-Event and X-Event-Type become the extension webhookevent.
- With ` + "`signature.secret`" + ` a request without the right signature answers 401 and names the header. The defaults are GitHub's. For Shopify, say:
  signature.header X-Shopify-Hmac-Sha256, signature.encoding base64, signature.prefix empty. The comparison takes constant time.

Put the secret in a reference such as ` + "`${env:HOOK_SECRET}` or `${file:/run/secrets/hook}`" + `.
`,
		Source: source,
	}
}

type receiver struct {
	cfg    config
	key    string // as gjson wants it
	signer signer
	now    func() time.Time
}

func open(cfg config, env connectors.Env) (connectors.Receiver, error) {
	if cfg.Source == "" {
		cfg.Source = "/webhooks/" + url.PathEscape(env.Connector)
	}
	r := &receiver{cfg: cfg, key: connectors.FieldPath(cfg.Key), now: env.Now}
	if r.now == nil {
		r.now = time.Now
	}
	r.signer = signer{&r.cfg, r.now}
	return r, nil
}

// Receive checks the signature and makes events of one request.
func (r *receiver) Receive(_ context.Context, req *http.Request, body []byte) ([]connectors.Out, error) {
	if err := r.signer.check(req.Header, body); err != nil {
		return nil, err
	}
	events, err := r.events(req.Header, body)
	if err != nil {
		return nil, err
	}
	outs := make([]connectors.Out, len(events))
	for i := range events {
		outs[i] = connectors.Out{Topic: r.cfg.Topic, Event: events[i]}
	}
	return outs, nil
}

func bad(field, msg string) error {
	return &connectors.HTTPError{Status: http.StatusBadRequest, Field: field, Msg: msg}
}

func (r *receiver) events(h http.Header, body []byte) ([]event.Event, error) {
	ct := h.Get("Content-Type")
	media, _, err := mime.ParseMediaType(ct)
	if err != nil && ct != "" {
		return nil, &connectors.HTTPError{Status: http.StatusUnsupportedMediaType, Field: "Content-Type", Msg: fmt.Sprintf("%q is not a media type", ct)}
	}
	switch {
	case media == event.ContentTypeJSON:
		e, err := event.ParseJSON(body)
		return []event.Event{e}, asBad(err)
	case media == event.ContentTypeBatch:
		events, err := event.ParseBatchJSON(body)
		return events, asBad(err)
	case h.Get("ce-specversion") != "":
		e, err := binaryEvent(h, body)
		return []event.Event{e}, err
	case ct != "" && event.IsJSON(media):
		if err := event.CheckJSON(body); err != nil {
			return nil, bad("body", err.Error())
		}
		return r.made(h, bytes.Clone(body), body), nil
	case media == "application/x-www-form-urlencoded":
		data, err := formJSON(body)
		if err != nil {
			return nil, err
		}
		return r.made(h, data, body), nil
	}
	return nil, &connectors.HTTPError{
		Status: http.StatusUnsupportedMediaType, Field: "Content-Type",
		Msg: fmt.Sprintf("%q is not taken: send application/json, application/x-www-form-urlencoded or CloudEvents", ct),
	}
}

// asBad makes a 400 of what is wrong with a CloudEvent.
func asBad(err error) error {
	if err == nil {
		return nil
	}
	if fe, ok := errors.AsType[*event.FieldError](err); ok {
		return bad(fe.Field, fe.Problem)
	}
	return bad("body", err.Error())
}

// made is the event of a request that is no CloudEvent.
func (r *receiver) made(h http.Header, data, body []byte) []event.Event {
	now := r.now()
	e := event.Event{
		ID: r.id(h, body, now), Source: r.cfg.Source, Type: r.cfg.Type, Subject: r.cfg.Subject, Time: now,
		ContentType: "application/json", Data: data,
	}
	if r.cfg.Key != "" {
		if v := gjson.GetBytes(data, r.key); v.Exists() && v.Type != gjson.Null {
			e.Key = v.String()
		}
	}
	for _, name := range []string{"X-GitHub-Event", "X-Event-Type"} {
		if v := h.Get(name); v != "" {
			e.Ext = []event.Attr{{Name: "webhookevent", Value: v}}
			break
		}
	}
	return []event.Event{e}
}

// id is the delivery's, so that a sender's second try has the id of the first.
func (r *receiver) id(h http.Header, body []byte, now time.Time) string {
	names := []string{"X-GitHub-Delivery", "webhook-id", "Idempotency-Key"}
	if r.cfg.IDHeader != "" {
		names = []string{r.cfg.IDHeader}
	}
	for _, name := range names {
		if v := h.Get(name); v != "" && utf8.ValidString(v) {
			return v
		}
	}
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(now.UnixNano())))
	sum.Write(body)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// formJSON is a form as a JSON object.
func formJSON(body []byte) ([]byte, error) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, bad("body", "is not a valid form: "+err.Error())
	}
	fields := make(map[string]any, len(values))
	for name, v := range values {
		if len(v) == 1 {
			fields[name] = v[0]
		} else {
			fields[name] = v
		}
	}
	return json.Marshal(fields)
}

// binaryEvent reads CloudEvents' binary mode: attributes in percent-encoded ce-
// headers, the data as the body. An empty body is no data, unless a content type
// other than JSON says that it is.
func binaryEvent(h http.Header, body []byte) (event.Event, error) {
	if v := h.Get("ce-specversion"); v != "1.0" && v != "0.3" {
		return event.Event{}, bad("ce-specversion", fmt.Sprintf("%q is not supported: use \"1.0\"", v))
	}
	var e event.Event
	for header, values := range h {
		name, ok := strings.CutPrefix(strings.ToLower(header), "ce-")
		if !ok || name == "specversion" || event.Reserved(name) {
			continue
		}
		value, err := url.PathUnescape(values[0])
		if err != nil { // of a sender that does not encode, as some CloudEvents SDKs do not
			value = values[0]
		}
		switch {
		case len(values) > 1:
			return e, bad(header, fmt.Sprintf("is given %d times", len(values)))
		case !utf8.ValidString(value):
			return e, bad(header, "is not percent-encoded UTF-8")
		case name == "datacontenttype":
			return e, bad(header, "belongs into the header Content-Type")
		}
		if e, err = e.Set(name, value); err != nil {
			return e, asBad(err)
		}
	}
	e.ContentType = h.Get("Content-Type")
	valid := event.CheckJSON(body)
	switch {
	case len(body) == 0 && e.JSON():
	case e.ContentType == "" && valid != nil:
		e.ContentType = "application/octet-stream" // none means JSON, and it is none
		e.Data = bytes.Clone(body)
	case e.JSON() && valid != nil:
		return e, bad("body", valid.Error())
	default:
		e.Data = append([]byte{}, body...)
	}
	return e, asBad(e.Validate())
}
