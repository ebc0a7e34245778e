package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"millrace/api/rest"
	"millrace/bus"
	"millrace/bus/event"
	"millrace/workers"
)

func (s *Server) deadLetterRoutes() []rest.Route {
	return []rest.Route{
		{Method: http.MethodGet, Path: "/dead-letters", Handle: s.listDead},
		{Method: http.MethodGet, Path: "/dead-letters/:topic", Handle: s.getDead, Query: []string{"limit"}},
		{Method: http.MethodPost, Path: "/dead-letters/:topic/redrive", Handle: s.redrive},
	}
}

type deadTopic struct {
	Topic string `json:"topic"`
	Count int    `json:"count"`
}

// countPage bounds what counting holds at one time.
const countPage = 100

func (s *Server) listDead(ctx context.Context, _ *rest.Request) (rest.Answer, error) {
	topics, err := s.deadTopics(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	out := []deadTopic{}
	for _, topic := range topics {
		n := 0
		for after := ""; ; {
			records, err := s.client.Scan(ctx, topic, "", after, countPage)
			if errors.Is(err, bus.ErrNoTopic) {
				break
			}
			if err != nil {
				return rest.Answer{}, err
			}
			n += len(records)
			if len(records) < countPage {
				break
			}
			after = records[len(records)-1].Key
		}
		out = append(out, deadTopic{topic, n})
	}
	return rest.OK(out)
}

// deadTopics lists the topics that hold dead letters: the owners' own, and those
// that rules and connectors name, as far as they are there.
func (s *Server) deadTopics(ctx context.Context) ([]string, error) {
	named, err := s.desired.DeadLetterTopics(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.client.Topics(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range all {
		if strings.HasPrefix(t.Name, workers.DeadTopic("")) || slices.Contains(named, t.Name) && workers.CheckDeadLetter(t) == nil {
			out = append(out, t.Name)
		}
	}
	return out, nil
}

func (s *Server) deadTopic(ctx context.Context, name string) error {
	topics, err := s.deadTopics(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(topics, name) {
		return rest.NotFound("no dead letters are in %s%s: see GET /dead-letters", name, rest.Suggest(name, topics))
	}
	return nil
}

// getDead shows the oldest letters: the original events, with reason, step and
// origin as extensions.
func (s *Server) getDead(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	limit, err := r.Int("limit", 100, 1, maxLimit)
	if err != nil {
		return rest.Answer{}, err
	}
	topic := r.Params["topic"]
	if err := s.deadTopic(ctx, topic); err != nil {
		return rest.Answer{}, err
	}
	letters, err := workers.DeadLetters(ctx, s.client, topic, limit)
	if err != nil {
		return rest.Answer{}, err
	}
	out := []byte{'['}
	for i := range letters {
		before := len(out)
		if i > 0 {
			out = append(out, ',')
		}
		out = appendLetter(out, &letters[i])
		if i > 0 && len(out) >= maxAnswer {
			out = out[:before]
			break
		}
	}
	return rest.Answer{Raw: append(out, ']', '\n'), Type: "application/json"}, nil
}

func appendLetter(dst []byte, l *workers.DeadLetter) []byte {
	r := l.Record
	r.Ext = slices.Clone(r.Ext)
	for _, a := range []event.Attr{{Name: event.ExtReason, Value: l.Reason}, {Name: event.ExtStep, Value: l.Step}, {Name: event.ExtOrigin, Value: l.Origin}} {
		if a.Value != "" {
			r.Ext = append(r.Ext, a)
		}
	}
	return event.AppendRecordJSON(dst, &r)
}

type redriveBody struct {
	IDs []string `json:"ids"`
}

type redriven struct {
	Redriven int `json:"redriven"`
}

func (s *Server) redrive(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var body redriveBody
	if err := r.DecodeOptional(&body); err != nil {
		return rest.Answer{}, err
	}
	topic := r.Params["topic"]
	if err := s.deadTopic(ctx, topic); err != nil {
		return rest.Answer{}, err
	}
	n, err := workers.Redrive(ctx, s.client, topic, body.IDs)
	if errors.Is(err, workers.ErrNotRedrivable) {
		return rest.Answer{}, rest.Fail(http.StatusConflict, "ids", "%d went, but %v", n, err)
	}
	if err != nil {
		return rest.Answer{}, err
	}
	return rest.OK(redriven{n})
}
