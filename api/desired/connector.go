package desired

import (
	"context"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"millrace/api/rest"
	"millrace/bus"
	"millrace/connectors"
	"millrace/schemas/spec"
	"millrace/workers"
)

// Connector is a connector's definition as parsed.
type Connector struct {
	Def workers.ConnectorDef
	connectors.Parsed
}

// Type is "source", "sink" or, where its class is not known here, "unknown".
func (c *Connector) Type() string {
	switch {
	case c.Source != nil:
		return "source"
	case c.Sink != nil:
		return "sink"
	}
	return "unknown"
}

// Parse takes a config apart and checks it. The error is a *spec.Error with all
// problems; the Parsed is then what could be told all the same.
func (s *Store) Parse(config map[string]string) (connectors.Parsed, error) {
	return connectors.Parse(s.o.Plugins, spec.FromStrings(config))
}

// Plugins lists what connectors there are.
func (s *Store) Plugins() []connectors.Plugin { return s.o.Plugins }

// Connector returns one connector, or a 404.
func (s *Store) Connector(ctx context.Context, name string) (Connector, error) {
	v, err := s.View(ctx)
	if err != nil {
		return Connector{}, err
	}
	def, ok := v.Connectors[name]
	if !ok {
		return Connector{}, noConnector(name)
	}
	return s.connector(def), nil
}

func (s *Store) connector(def workers.ConnectorDef) Connector {
	c := Connector{Def: def}
	// A definition that was fine when it was made may not be for this version; what
	// can be told of it is shown, and its task says what is wrong.
	c.Parsed, _ = s.Parse(def.Config)
	return c
}

// Connectors returns all connectors by name.
func (s *Store) Connectors(ctx context.Context) (map[string]Connector, error) {
	v, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Connector, len(v.Connectors))
	for name, def := range v.Connectors {
		out[name] = s.connector(def)
	}
	return out, nil
}

// DeadLetterTopics lists the topics for dead letters that rules and connectors
// name.
func (s *Store) DeadLetterTopics(ctx context.Context) (out []string, err error) {
	v, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	for _, def := range v.Connectors {
		if t := def.Config["errors.deadletterqueue.topic.name"]; t != "" {
			out = append(out, t)
		}
	}
	for _, def := range v.Rules {
		if t := refsOf(def.Spec).DeadLetter.Topic; t != "" {
			out = append(out, t)
		}
	}
	return out, nil
}

func noConnector(name string) error { return rest.NotFound("Connector %s not found", name) }

// PutConnector plans to make or replace a connector. state is the wanted state of
// a new one, "" for running; a replaced one keeps its own.
func (p *Plan) PutConnector(ctx context.Context, name string, config map[string]string, state string) (Action, error) {
	if err := checkName("name", "connector", name, 100); err != nil {
		return "", err
	}
	if n, ok := config["name"]; ok && n != name {
		return "", rest.Bad("name", "Connector name configuration (%s) doesn't match connector name in the URL (%s)", n, name)
	}
	config = maps.Clone(config)
	config["name"] = name
	parsed, err := p.s.Check(config)
	if err != nil {
		return "", invalidConfig(err, config["connector.class"])
	}
	if err := checkTopics(&parsed); err != nil {
		return "", err
	}
	old, exists := p.Connectors[name]
	if exists && maps.Equal(old.Config, config) {
		return Unchanged, nil
	}
	def := workers.ConnectorDef{Config: config, State: state, Created: p.s.o.Now().UTC()}
	if def.State == "" {
		def.State = workers.StateRunning
	}
	if exists {
		def.State, def.Created, def.Restarts, def.Starts = old.State, old.Created, old.Restarts, old.Starts
	} else if def.Starts, err = p.sinkStarts(ctx, &parsed); err != nil {
		return "", err
	}
	p.Connectors[name] = def
	if err := p.put(bus.TopicConfig, name, def); err != nil {
		return "", err
	}
	if exists {
		return Updated, nil
	}
	return Created, nil
}

// Check is Parse that also checks what a worker makes of the config.
func (s *Store) Check(config map[string]string) (connectors.Parsed, error) {
	parsed, err := s.Parse(config)
	if err == nil {
		err = workers.CheckConnector(parsed)
	}
	return parsed, err
}

// checkTopics refuses topics that are not users' own.
func checkTopics(parsed *connectors.Parsed) error {
	for _, t := range parsed.SinkConfig.Topics {
		if err := CheckTopic("topics", t); err != nil {
			return err
		}
	}
	if t := parsed.SourceConfig.Topic; t != "" && !spec.IsReference(t) {
		if err := CheckTopic("topic", t); err != nil {
			return err
		}
	}
	return nil
}

// sinkStarts fixes where a new sink begins in queues that are there now; none
// means the earliest, as in Kafka Connect.
func (p *Plan) sinkStarts(ctx context.Context, parsed *connectors.Parsed) (map[string]int64, error) {
	if parsed.Sink == nil {
		return nil, nil
	}
	at, latest, err := connectors.ParseStart(parsed.SinkConfig.Start)
	if err != nil {
		return nil, rest.Bad("start", "%v", err)
	}
	if !latest && at.IsZero() {
		return nil, nil
	}
	start := Place{Kind: Latest}
	if !latest {
		start = Place{Kind: AtTime, Time: at}
	}
	topics := parsed.SinkConfig.Topics
	if re := parsed.SinkConfig.TopicsRegex; re != "" {
		whole, err := regexp.Compile("^(?:" + re + ")$")
		if err != nil {
			return nil, rest.Bad("topics.regex", "is not a regular expression: %v", err)
		}
		for _, t := range sortedKeys(p.topics) {
			if !bus.InternalTopic(t) && whole.MatchString(t) {
				topics = append(topics, t)
			}
		}
	}
	starts := map[string]int64{}
	for _, t := range topics {
		if err := p.startsOf(ctx, t, start, starts); err != nil {
			return nil, err
		}
	}
	return starts, nil
}

// DeleteConnector plans to remove a connector. Its offsets stay, as in Kafka
// Connect: one of the same name goes on from there. Unless force, one that rules
// deliver to is a conflict that names them.
func (p *Plan) DeleteConnector(name string, force bool) error {
	if _, ok := p.Connectors[name]; !ok {
		return noConnector(name)
	}
	var users []string
	for _, r := range sortedKeys(p.Rules) {
		if slices.Contains(refsOf(p.Rules[r].Spec).connectors(), name) {
			users = append(users, "rule "+r)
		}
	}
	if len(users) > 0 && !force {
		return rest.Of(http.StatusConflict, "connector", "connector %s is used by %s: delete those first, or add ?force=true", name, strings.Join(users, ", "))
	}
	delete(p.Connectors, name)
	p.remove(bus.TopicConfig, name)
	return nil
}

// ChangeConnector plans a change of a connector's definition other than its
// config.
func (p *Plan) ChangeConnector(name string, change func(*workers.ConnectorDef)) error {
	def, ok := p.Connectors[name]
	if !ok {
		return noConnector(name)
	}
	def.Restarts = maps.Clone(def.Restarts)
	change(&def)
	p.Connectors[name] = def
	return p.put(bus.TopicConfig, name, def)
}

// connectorUses reports whether a connector reads or writes a topic by name.
func (s *Store) connectorUses(config map[string]string, topic string) bool {
	parsed, _ := s.Parse(config) // what can be told is enough
	dead := config["errors.deadletterqueue.topic.name"]
	return slices.Contains(parsed.SinkConfig.Topics, topic) || parsed.SourceConfig.Topic == topic || dead == topic
}
