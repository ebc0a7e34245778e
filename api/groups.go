package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/bus"
)

func (s *Server) groupRoutes() []rest.Route {
	routes := []rest.Route{
		{Method: http.MethodGet, Path: "/groups", Handle: s.listGroups, Query: []string{"internal"}},
		{Method: http.MethodGet, Path: "/groups/:group", Handle: s.getGroup},
		{Method: http.MethodPost, Path: "/groups/:group/reset", Handle: s.resetGroup},
	}
	for _, verb := range []string{"receive", "ack", "nack", "extend"} {
		routes = append(routes, rest.Route{Method: http.MethodPost, Path: "/groups/:group/" + verb, Handle: noMessageMode(verb)})
	}
	return routes
}

// noMessageMode refuses the verbs of message mode by name.
func noMessageMode(verb string) rest.Handler {
	return func(context.Context, *rest.Request) (rest.Answer, error) {
		return rest.Answer{}, rest.Fail(http.StatusNotImplemented, "", "%s belongs to message mode, which this version does not have: read with GET /topics/{topic}/events", verb)
	}
}

// modeStream is the only mode of groups so far.
const modeStream = "stream"

type groupSummary struct {
	Name string `json:"name"`
	Mode string `json:"mode"`
	Lag  int64  `json:"lag"`
}

type groupDetail struct {
	Name   string       `json:"name"`
	Mode   string       `json:"mode"`
	Queues []groupQueue `json:"queues"`
}

type groupQueue struct {
	Topic      string `json:"topic"`
	Queue      int    `json:"queue"`
	First      int64  `json:"first"`
	Next       int64  `json:"next"`
	Checkpoint int64  `json:"checkpoint"` // -1 = none
	Lag        int64  `json:"lag"`
	Owner      string `json:"owner"`
}

// lag is what a slot has still to read: all that is there where it has no
// checkpoint.
func lag(i bus.SlotInfo) int64 {
	if i.Topic == "" {
		return 0
	}
	return max(i.Next-max(i.Checkpoint, i.First), 0)
}

func (s *Server) listGroups(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	internal, err := r.Bool("internal")
	if err != nil {
		return rest.Answer{}, err
	}
	groups, err := s.client.Groups(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	out := []groupSummary{}
	for _, g := range groups {
		if strings.HasPrefix(g.Name, "__") && !internal {
			continue
		}
		sum := groupSummary{Name: g.Name, Mode: modeStream}
		for _, slot := range g.Slots {
			sum.Lag += lag(slot)
		}
		out = append(out, sum)
	}
	return rest.OK(out)
}

func (s *Server) group(ctx context.Context, name string) (bus.GroupInfo, error) {
	groups, err := s.client.Groups(ctx)
	if err != nil {
		return bus.GroupInfo{}, err
	}
	i := slices.IndexFunc(groups, func(g bus.GroupInfo) bool { return g.Name == name })
	if i < 0 {
		return bus.GroupInfo{}, rest.NotFound("no such group: %s: a group is there from its first member or checkpoint on", name)
	}
	return groups[i], nil
}

func (s *Server) getGroup(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	g, err := s.group(ctx, r.Params["group"])
	if err != nil {
		return rest.Answer{}, err
	}
	out := groupDetail{Name: g.Name, Mode: modeStream, Queues: []groupQueue{}}
	for _, i := range g.Slots {
		q := groupQueue{Topic: i.Topic, Queue: i.Queue, First: i.First, Next: i.Next, Checkpoint: i.Checkpoint, Lag: lag(i), Owner: i.Owner}
		out.Queues = append(out.Queues, q)
	}
	return rest.OK(out)
}

type resetBody struct {
	To string `json:"to"`
}

func (s *Server) resetGroup(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	var body resetBody
	if err := r.Decode(&body); err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["group"]
	if strings.HasPrefix(name, "__") {
		return rest.Answer{}, rest.Fail(http.StatusForbidden, "group", "%s belongs to Millrace itself", name)
	}
	if err := s.reset(ctx, name, "to", body.To); err != nil {
		return rest.Answer{}, err
	}
	return s.getGroup(ctx, r)
}

// reset moves the queue slots of a group. What waits in Millrace's own queues, on
// the way to a target, is skipped with latest and else left to be delivered.
// Invariant 11: the bus raises the slots' epochs, so running owners start again
// from there.
func (s *Server) reset(ctx context.Context, name, field, to string) error {
	p, err := desired.ParsePlace(field, to)
	if err != nil {
		return err
	}
	g, err := s.group(ctx, name)
	if err != nil {
		return err
	}
	var cursors []bus.Cursor
	for _, i := range g.Slots {
		if i.Topic == "" || bus.InternalTopic(i.Topic) && p.Kind != desired.Latest {
			continue
		}
		next, err := desired.OffsetOf(ctx, s.client, i.Topic, i.Bound, p)
		if err != nil {
			return err
		}
		cursors = append(cursors, bus.Cursor{Topic: i.Topic, Queue: i.Queue, Next: next})
	}
	if len(cursors) == 0 {
		return rest.Conflict("group %s reads no topic: a source's positions are not offsets", name)
	}
	return s.client.ResetGroup(ctx, name, cursors)
}
