package api

import (
	"context"
	"errors"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/bus"
	"millrace/bus/event"
)

func (s *Server) eventRoutes() []rest.Route {
	return []rest.Route{
		{Method: http.MethodPost, Path: "/topics/:topic/events", Handle: s.postEvents, Events: true},
		{Method: http.MethodGet, Path: "/topics/:topic/events", Handle: s.getEvents, Query: []string{"queue", "from", "limit", "wait"}},
	}
}

// maxBatchEvents bounds the events of one request, whose values take more memory
// than their JSON. Invariant 10.
const maxBatchEvents = 100_000

// stored says where an event went.
type stored struct {
	ID     string `json:"id"`
	Topic  string `json:"topic,omitempty"`
	Queue  int    `json:"queue"`
	Offset int64  `json:"offset"`
}

// postEvents is the CloudEvents HTTP binding. The answer comes when all events
// are durable: Invariant 1.
func (s *Server) postEvents(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	topic := r.Params["topic"]
	if bus.InternalTopic(topic) {
		return rest.Answer{}, rest.Fail(http.StatusForbidden, "topic", "%s belongs to Millrace itself: publish to a topic of your own", topic)
	}
	if _, err := s.topic(ctx, topic); err != nil {
		return rest.Answer{}, err
	}
	events, err := parseEvents(r)
	if err != nil {
		return rest.Answer{}, err
	}
	if len(events) == 0 {
		return rest.OK([]stored{})
	}
	places, err := s.client.Append(ctx, bus.Batch{Writes: []bus.Write{{Topic: topic, Events: events}}})
	if errors.Is(err, bus.ErrNoTopic) {
		return rest.Answer{}, desired.NoTopic(topic)
	}
	if err != nil {
		return rest.Answer{}, err
	}
	out := make([]stored, len(events))
	for i, p := range places {
		out[i] = stored{ID: events[i].ID, Queue: p.Queue, Offset: p.Offset}
	}
	return rest.OK(out)
}

// parseEvents reads the events of a request in whichever mode it is in.
func parseEvents(r *rest.Request) ([]event.Event, error) {
	ct := r.Header.Get("Content-Type")
	mt, params, err := mime.ParseMediaType(ct)
	if err != nil && ct != "" {
		return nil, rest.Fail(http.StatusUnsupportedMediaType, "Content-Type", "%q is no media type", ct)
	}
	if strings.HasPrefix(mt, "application/cloudevents") {
		if cs := params["charset"]; cs != "" && !strings.EqualFold(cs, "utf-8") {
			return nil, rest.Fail(http.StatusUnsupportedMediaType, "Content-Type", "charset %q is not taken: send UTF-8", cs)
		}
	}
	var events []event.Event
	switch {
	case mt == event.ContentTypeBatch:
		events, err = event.ParseBatchJSON(r.Body)
	case mt == event.ContentTypeJSON:
		var e event.Event
		e, err = event.ParseJSON(r.Body)
		events = []event.Event{e}
	case !strings.HasPrefix(mt, "application/cloudevents") && hasAttributes(r.Header):
		var e event.Event
		e, err = binaryEvent(r.Header, r.Body)
		events = []event.Event{e}
	default:
		return nil, rest.Fail(http.StatusUnsupportedMediaType, "Content-Type",
			"%q is not CloudEvents: send %s, %s, or any type with the attributes as ce- headers", ct, event.ContentTypeJSON, event.ContentTypeBatch)
	}
	if err == nil && len(events) > maxBatchEvents {
		err = rest.Of(http.StatusRequestEntityTooLarge, "body", "the batch has %d events, the limit is %d: send it in pieces", len(events), maxBatchEvents)
	}
	if errors.Is(err, event.ErrSyntax) {
		err = rest.Of(http.StatusBadRequest, "body", "the body is not JSON: %v", err)
	}
	return events, err
}

func hasAttributes(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Ce-") {
			return true
		}
	}
	return false
}

// binaryEvent reads the binary mode: attributes in ce- headers, percent-encoded,
// and the body as data. An empty body is no data, unless a content type other
// than JSON says that it is.
func binaryEvent(h http.Header, body []byte) (event.Event, error) {
	var e event.Event
	version := h.Get("ce-specversion")
	switch version {
	case "1.0", "0.3":
	case "":
		return e, rest.Bad("ce-specversion", `is required: "1.0"`)
	default:
		return e, rest.Bad("ce-specversion", `%q is not supported: use "1.0"`, version)
	}
	for header, values := range h {
		name, ok := strings.CutPrefix(header, "Ce-")
		if !ok {
			continue
		}
		name = strings.ToLower(name)
		if len(values) > 1 {
			return e, rest.Bad("ce-"+name, "is given %d times", len(values))
		}
		if name == "specversion" || event.Reserved(name) {
			continue
		}
		if name == "schemaurl" && version == "0.3" {
			name = "dataschema"
		}
		value, err := headerValue(values[0])
		if err != nil {
			return e, rest.Bad("ce-"+name, "%v", err)
		}
		if name == "datacontenttype" {
			return e, rest.Bad("ce-datacontenttype", "belongs into the header Content-Type")
		}
		if value == "" {
			return e, rest.Bad("ce-"+name, "is empty: leave the header out")
		}
		if e, err = e.Set(name, value); err != nil {
			return e, headerField(err)
		}
	}
	e.ContentType = h.Get("Content-Type")
	if err := e.Validate(); err != nil {
		return e, headerField(err)
	}
	if len(body) > 0 && e.JSON() && e.ContentType != "" {
		if err := event.CheckJSON(body); err != nil {
			return e, rest.Bad("data", "is not JSON though Content-Type says so: %v", err)
		}
	}
	switch {
	case len(body) > 0:
		e.Data = body
		if e.ContentType == "" && event.CheckJSON(body) != nil {
			e.ContentType = "application/octet-stream" // none means JSON in CloudEvents, and it is none
		}
	case !e.JSON():
		e.Data = []byte{}
	}
	return e, nil
}

// headerField puts the header's name on an error that names an attribute.
func headerField(err error) error {
	if fe, ok := errors.AsType[*event.FieldError](err); ok {
		return rest.Bad("ce-"+fe.Field, "%s", fe.Problem)
	}
	return err
}

// headerValue undoes the binding's encoding: optional double quotes with
// backslash escapes, then percent-encoding. A percent sign that begins no escape
// stands for itself, as senders that do not encode mean it.
func headerValue(v string) (string, error) {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		var b strings.Builder
		for i := 1; i < len(v)-1; i++ {
			if v[i] == '\\' && i+1 < len(v)-1 {
				i++
			}
			b.WriteByte(v[i])
		}
		v = b.String()
	}
	if strings.Contains(v, "%") {
		var b strings.Builder
		for i := 0; i < len(v); i++ {
			if i+2 < len(v) && v[i] == '%' {
				if c, err := strconv.ParseUint(v[i+1:i+3], 16, 8); err == nil {
					b.WriteByte(byte(c))
					i += 2
					continue
				}
			}
			b.WriteByte(v[i])
		}
		v = b.String()
	}
	if !utf8.ValidString(v) {
		return "", errors.New("is not UTF-8 once its percent-encoding is undone")
	}
	return v, nil
}
