package desired

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"millrace/api/rest"
	"millrace/schemas/spec"
	"millrace/workers"
)

// ConnectionSpec is the body of PUT /connections/{name}: how to show oneself to
// another system. Secrets stand in it as references only.
type ConnectionSpec struct {
	Type     string `json:"type" doc:"basic, api-key or bearer." spec:"required,enum=basic|api-key|bearer"`
	Username string `json:"username,omitempty" doc:"The user's name, with basic."`
	Password string `json:"password,omitempty" doc:"The user's password, with basic." spec:"secret"`
	Header   string `json:"header,omitempty" doc:"The header that carries the key, with api-key." default:"X-API-Key"`
	Key      string `json:"key,omitempty" doc:"The key, with api-key." spec:"secret"`
	Token    string `json:"token,omitempty" doc:"The token, with bearer." spec:"secret"`
}

// Keys that a connection adds to the config of a target; the table holds them.
const (
	keyUser     = "auth.user"
	keyPassword = "auth.password"
	keyToken    = "auth.token"
	keyHeader   = "headers."
)

// keys are what the connection adds to a target's config.
func (c *ConnectionSpec) keys() map[string]string {
	switch c.Type {
	case "basic":
		return map[string]string{keyUser: c.Username, keyPassword: c.Password}
	case "bearer":
		return map[string]string{keyToken: c.Token}
	default:
		return map[string]string{keyHeader + c.Header: c.Key}
	}
}

// Connection gives back the spec of which a connection's keys were made.
func Connection(keys map[string]string) ConnectionSpec {
	if user, ok := keys[keyUser]; ok {
		return ConnectionSpec{Type: "basic", Username: user, Password: keys[keyPassword]}
	}
	if token, ok := keys[keyToken]; ok {
		return ConnectionSpec{Type: "bearer", Token: token}
	}
	c := ConnectionSpec{Type: "api-key"}
	for key, value := range keys {
		c.Header, c.Key = strings.TrimPrefix(key, keyHeader), value
	}
	return c
}

// fields are the keys that a type needs and those that it may have beside them.
func (c *ConnectionSpec) fields() (needs, may []string) {
	switch c.Type {
	case "basic":
		return []string{"username", "password"}, nil
	case "bearer":
		return []string{"token"}, nil
	default:
		return []string{"key"}, []string{"header"}
	}
}

// PutConnection plans to make or replace a connection.
func (p *Plan) PutConnection(name string, raw json.RawMessage) (Action, error) {
	if err := checkName("name", "connection", name, 100); err != nil {
		return "", err
	}
	var config map[string]any
	if err := rest.Strict("", raw, &config); err != nil {
		return "", err
	}
	c, err := checkConnection(config)
	if err != nil {
		return "", err
	}
	keys := c.keys()
	old, exists := p.Connections[name]
	if exists && maps.Equal(old, keys) {
		return Unchanged, nil
	}
	p.Connections[name] = keys
	if err := p.put(workers.TopicConnections, name, keys); err != nil {
		return "", err
	}
	if exists {
		return Updated, nil
	}
	return Created, nil
}

func checkConnection(config map[string]any) (ConnectionSpec, error) {
	s := spec.Of[ConnectionSpec]()
	var c ConnectionSpec
	if err := s.Decode(config, &c); err != nil {
		return c, err
	}
	needs, may := c.fields()
	for _, key := range needs {
		if v, _ := config[key].(string); v == "" {
			return c, rest.Bad(key, "is required with type %s", c.Type)
		}
	}
	for _, f := range s.Fields() {
		v, given := config[f.Name]
		if !given || f.Name == "type" {
			continue
		}
		if !slices.Contains(needs, f.Name) && !slices.Contains(may, f.Name) {
			return c, rest.Bad(f.Name, "does not belong to type %s", c.Type)
		}
		if text, _ := v.(string); f.Secret && !spec.IsReference(text) {
			return c, rest.Bad(f.Name, "is a plain secret, which would be stored and shown: put it into the environment or a file and send a reference, ${env:NAME} or ${file:/path}")
		}
	}
	return c, nil
}

// DeleteConnection plans to remove a connection. Unless force, one that rules use
// is a conflict that names them.
func (p *Plan) DeleteConnection(name string, force bool) error {
	if _, ok := p.Connections[name]; !ok {
		return rest.NotFound("no such connection: %s", name)
	}
	if users := p.connectionUsers(name); len(users) > 0 && !force {
		return rest.Of(http.StatusConflict, "connection", "connection %s is used by %s: delete those first, or add ?force=true", name, strings.Join(users, ", "))
	}
	delete(p.Connections, name)
	p.remove(workers.TopicConnections, name)
	return nil
}

func (p *Plan) connectionUsers(name string) []string {
	var users []string
	for _, r := range sortedKeys(p.Rules) {
		if slices.Contains(refsOf(p.Rules[r].Spec).connections(), name) {
			users = append(users, "rule "+r)
		}
	}
	return users
}
