package desired

import (
	"encoding/json"
	"slices"
	"strings"

	"millrace/api/rest"
	"millrace/schemas/spec"
	"millrace/workers"
)

// ConnectionSpec is the body of PUT /connections/{name}: how to show oneself to
// another system. Secrets stand in it as references only.
type ConnectionSpec struct {
	Type     string      `json:"type" doc:"basic, api-key or bearer." spec:"required,enum=basic|api-key|bearer"`
	Username string      `json:"username" doc:"The user's name, with basic."`
	Password spec.Secret `json:"password" doc:"The user's password, with basic."`
	Header   string      `json:"header" doc:"The header that carries the key, with api-key." default:"X-API-Key"`
	Key      spec.Secret `json:"key" doc:"The key, with api-key."`
	Token    spec.Secret `json:"token" doc:"The token, with bearer."`
}

// wanted lists the keys that each type needs.
var wanted = map[string][]string{
	"basic":   {"username", "password"},
	"api-key": {"key"},
	"bearer":  {"token"},
}

// allowed lists the keys that each type may have beside those.
var allowed = map[string][]string{"api-key": {"header"}}

// PutConnection plans to make or replace a connection.
func (p *Plan) PutConnection(name string, raw json.RawMessage) (Action, error) {
	if err := checkName("name", "connection", name, 100); err != nil {
		return "", err
	}
	var config map[string]any
	if err := rest.Strict("", raw, &config); err != nil {
		return "", err
	}
	if err := checkConnection(config); err != nil {
		return "", err
	}
	old, exists := p.Connections[name]
	if exists && sameJSON(old, raw) {
		return Unchanged, nil
	}
	p.Connections[name] = raw
	if err := p.put(workers.TopicConnections, name, raw); err != nil {
		return "", err
	}
	if exists {
		return Updated, nil
	}
	return Created, nil
}

func checkConnection(config map[string]any) error {
	s := spec.Of[ConnectionSpec]()
	var c ConnectionSpec
	if err := s.Decode(config, &c); err != nil {
		return err
	}
	for _, key := range wanted[c.Type] {
		if v, _ := config[key].(string); v == "" {
			return rest.Bad(key, "is required with type %s", c.Type)
		}
	}
	for _, f := range s.Fields() {
		v, given := config[f.Name]
		if !given || f.Name == "type" {
			continue
		}
		if !slices.Contains(wanted[c.Type], f.Name) && !slices.Contains(allowed[c.Type], f.Name) {
			return rest.Bad(f.Name, "does not belong to type %s", c.Type)
		}
		if text, _ := v.(string); f.Secret && !spec.IsReference(text) {
			return rest.Bad(f.Name, "is a plain secret, which would be stored and shown: put it into the environment or a file and send a reference, ${env:NAME} or ${file:/path}")
		}
	}
	return nil
}

// DeleteConnection plans to remove a connection. Unless force, one that rules use
// is a conflict that names them.
func (p *Plan) DeleteConnection(name string, force bool) error {
	if _, ok := p.Connections[name]; !ok {
		return rest.NotFound("no such connection: %s", name)
	}
	if users := p.connectionUsers(name); len(users) > 0 && !force {
		return rest.Conflict("connection %s is used by %s: delete those first, or add ?force=true", name, strings.Join(users, ", "))
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
	for _, c := range sortedKeys(p.Connectors) {
		if p.Connectors[c].Config["connection"] == name {
			users = append(users, "connector "+c)
		}
	}
	return users
}
