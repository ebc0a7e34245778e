package connect

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"

	"millrace/api/rest"
	"millrace/bus"
	"millrace/workers"
)

// offset is one partition and how far it has come. A sink's partition is a
// topic's queue; a source's are its own.
type offset struct {
	Partition any             `json:"partition"`
	Offset    json.RawMessage `json:"offset"`
}

type offsetList struct {
	Offsets []offset `json:"offsets"`
}

type queuePartition struct {
	Topic string `json:"kafka_topic"`
	Queue int    `json:"kafka_partition"`
}

type queueOffset struct {
	Offset int64 `json:"kafka_offset"`
}

func (s *Service) offsets(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	name := r.Params["connector"]
	c, err := s.Desired.Connector(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	list := offsetList{Offsets: []offset{}}
	group := workers.ConnectorGroup(name)
	if c.Source != nil {
		list.Offsets, err = s.positions(ctx, group)
		return rest.Answer{Body: list}, err
	}
	groups, err := s.Client.Groups(ctx)
	if err != nil {
		return rest.Answer{}, err
	}
	for _, g := range groups {
		if g.Name != group {
			continue
		}
		for _, slot := range g.Slots {
			if slot.Topic == "" || slot.Checkpoint < 0 {
				continue
			}
			raw, err := json.Marshal(queueOffset{slot.Checkpoint})
			if err != nil {
				return rest.Answer{}, err
			}
			list.Offsets = append(list.Offsets, offset{queuePartition{slot.Topic, slot.Queue}, raw})
		}
	}
	return rest.OK(list)
}

func (s *Service) positions(ctx context.Context, group string) ([]offset, error) {
	all, err := s.Client.Positions(ctx, group)
	if err != nil {
		return nil, err
	}
	out := []offset{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		var partition map[string]any
		if json.Unmarshal([]byte(key), &partition) != nil {
			partition = map[string]any{"partition": key}
		}
		out = append(out, offset{partition, all[key]})
	}
	return out, nil
}

type message struct {
	Message string `json:"message"`
}

// resetOffsets forgets how far a stopped connector has come.
func (s *Service) resetOffsets(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	name := r.Params["connector"]
	c, err := s.Desired.Connector(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	if c.Def.State != workers.StateStopped {
		return rest.Answer{}, rest.Fail(http.StatusBadRequest, "", "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified connector by issuing a 'PUT' request to the '/connectors/%s/stop' endpoint", name)
	}
	if err := s.Client.ForgetGroup(ctx, workers.ConnectorGroup(name)); err != nil {
		return rest.Answer{}, err
	}
	return rest.OK(message{"The offsets for this connector have been reset successfully"})
}

type topicList struct {
	Topics []string `json:"topics"`
}

// topics lists the topics that a connector's config names, and those that match
// its topics.regex now.
func (s *Service) topics(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	name := r.Params["connector"]
	c, err := s.Desired.Connector(ctx, name)
	if err != nil {
		return rest.Answer{}, err
	}
	out := slices.Clone(c.SinkConfig.Topics)
	if t := c.SourceConfig.Topic; t != "" {
		out = append(out, t)
	}
	if re := c.SinkConfig.TopicsRegex; re != "" {
		matching, err := s.matching(ctx, re)
		if err != nil {
			return rest.Answer{}, err
		}
		out = append(out, matching...)
	}
	if out == nil {
		out = []string{}
	}
	return rest.OK(map[string]topicList{name: {out}})
}

func (s *Service) matching(ctx context.Context, expression string) ([]string, error) {
	re, err := regexp.Compile("^(?:" + expression + ")$")
	if err != nil {
		return nil, rest.Bad("topics.regex", "%v", err)
	}
	all, err := s.Client.Topics(ctx)
	if errors.Is(err, bus.ErrNoTopic) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range all {
		if !t.Internal() && re.MatchString(t.Name) {
			out = append(out, t.Name)
		}
	}
	return out, nil
}
