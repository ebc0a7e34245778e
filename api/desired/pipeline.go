package desired

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"millrace/api/rest"
)

// Resource is one thing that is wanted, as files and POST /apply have it.
type Resource struct {
	Kind string          `json:"kind"`
	Name string          `json:"name"`
	Spec json.RawMessage `json:"spec"`
}

// ResourceList is the body of POST /apply and of PUT /pipelines/{name}.
type ResourceList struct {
	Resources []Resource `json:"resources"`
}

// Ref names a resource.
type Ref struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Pipeline is a list of resources that are applied as one. Owned are those that
// it made itself: they go when it no longer lists them.
type Pipeline struct {
	Resources []Resource `json:"resources"`
	Owned     []Ref      `json:"owned,omitempty"`
}

// Change is what a plan does to one resource.
type Change struct {
	Ref
	Action Action `json:"action"`
}

// applied is the name under which Apply keeps what it made; no pipeline can have it.
const applied = "/apply"

// kinds lists the kinds in the order in which they depend on one another.
func kinds() []string {
	return []string{"Connection", "Topic", "Schema", "Connector", "Rule", "Pipeline"}
}

// Apply plans to put all resources, in the order of their dependencies; the
// changes come in the order of the resources. With prune, what earlier calls
// made and this one does not list is deleted; those changes come last.
func (p *Plan) Apply(ctx context.Context, path string, resources []Resource, prune bool) ([]Change, error) {
	own := p.Pipelines[applied].Owned
	changes, made, err := p.putAll(ctx, path, resources)
	if err != nil {
		return nil, err
	}
	next := slices.Clone(own)
	if prune {
		var gone []Change
		if next, gone, err = p.prune(own, resources); err != nil {
			return nil, err
		}
		changes = append(changes, gone...)
	}
	return changes, p.own(applied, nil, append(next, made...), own)
}

// own notes what a pipeline lists and owns, where that changed.
func (p *Plan) own(name string, resources []Resource, owned, before []Ref) error {
	slices.SortFunc(owned, compareRefs)
	owned = slices.Compact(owned)
	if resources == nil && slices.Equal(owned, before) {
		return nil
	}
	pipe := Pipeline{Resources: resources, Owned: owned}
	p.Pipelines[name] = pipe
	return p.put(TopicPipelines, name, pipe)
}

// putAll plans every resource and says what each change is and which are new.
func (p *Plan) putAll(ctx context.Context, path string, resources []Resource) (changes []Change, made []Ref, err error) {
	seen := make(map[Ref]int, len(resources))
	for i, r := range resources {
		here := index(path, i)
		if !slices.Contains(kinds(), r.Kind) {
			return nil, nil, rest.Bad(here+".kind", "%q is not a kind of resource%s", r.Kind, rest.Suggest(r.Kind, kinds()))
		}
		if j, twice := seen[r.ref()]; twice {
			return nil, nil, rest.Bad(here+".name", "%s %s is listed twice, first at %s", r.Kind, r.Name, index(path, j))
		}
		seen[r.ref()] = i
	}
	changes = make([]Change, len(resources))
	for _, kind := range kinds() {
		for i, r := range resources {
			if r.Kind != kind {
				continue
			}
			action, err := p.putOne(ctx, r)
			if err != nil {
				return nil, nil, inResource(index(path, i), err)
			}
			changes[i] = Change{r.ref(), action}
			if action == Created {
				made = append(made, r.ref())
			}
		}
	}
	return changes, made, nil
}

func (p *Plan) putOne(ctx context.Context, r Resource) (Action, error) {
	raw := r.Spec
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	switch r.Kind {
	case "Connection":
		return p.PutConnection(r.Name, raw)
	case "Topic":
		var spec TopicSpec
		if err := rest.Strict("", raw, &spec); err != nil {
			return "", err
		}
		return p.PutTopic(r.Name, spec)
	case "Connector":
		config, err := rest.FlatConfig(raw)
		if err != nil {
			return "", err
		}
		return p.PutConnector(ctx, r.Name, config, "")
	case "Rule":
		return p.PutRule(ctx, r.Name, raw)
	case "Pipeline":
		var spec ResourceList
		if err := rest.Strict("", raw, &spec); err != nil {
			return "", err
		}
		action, _, err := p.PutPipeline(ctx, r.Name, spec.Resources)
		return action, err
	default:
		return "", rest.Fail(http.StatusNotImplemented, "kind", "resources of kind %s do not exist yet", r.Kind)
	}
}

// PutPipeline plans to put a pipeline and its resources, and to delete what it
// made before and does not list any more.
func (p *Plan) PutPipeline(ctx context.Context, name string, resources []Resource) (Action, []Change, error) {
	if err := checkName("name", "pipeline", name, 100); err != nil {
		return "", nil, err
	}
	for i, r := range resources {
		if r.Kind == "Pipeline" {
			return "", nil, rest.Bad(index("resources", i)+".kind", "a pipeline does not hold another one")
		}
		for _, other := range sortedKeys(p.Pipelines) {
			if other != name && other != applied && slices.Contains(p.Pipelines[other].Owned, r.ref()) {
				return "", nil, rest.Fail(http.StatusConflict, index("resources", i)+".name", "%s %s belongs to pipeline %s", r.Kind, r.Name, other)
			}
		}
	}
	old, exists := p.Pipelines[name]
	changes, made, err := p.putAll(ctx, "resources", resources)
	if err != nil {
		return "", nil, err
	}
	next, gone, err := p.prune(old.Owned, resources)
	if err != nil {
		return "", nil, err
	}
	changes = append(changes, gone...)
	action := Created
	if exists {
		action = Updated
		same := sameResources(old.Resources, resources)
		if same && !slices.ContainsFunc(changes, func(c Change) bool { return c.Action != Unchanged }) {
			return Unchanged, changes, nil
		}
	}
	if resources == nil {
		resources = []Resource{}
	}
	return action, changes, p.own(name, resources, append(next, made...), old.Owned)
}

// DeletePipeline plans to remove a pipeline with what it made.
func (p *Plan) DeletePipeline(name string) error {
	old, ok := p.Pipelines[name]
	if !ok || name == applied {
		return rest.NotFound("no such pipeline: %s", name)
	}
	delete(p.Pipelines, name)
	p.remove(TopicPipelines, name)
	_, _, err := p.prune(old.Owned, nil)
	return err
}

// prune plans to delete what is owned and not listed, last kinds first, and
// returns what is owned still. What is gone already is no fault.
func (p *Plan) prune(owned []Ref, listed []Resource) (keep []Ref, gone []Change, err error) {
	order := slices.Clone(owned)
	slices.SortFunc(order, func(a, b Ref) int { return -compareRefs(a, b) })
	for _, ref := range order {
		if slices.ContainsFunc(listed, func(r Resource) bool { return r.ref() == ref }) {
			keep = append(keep, ref)
			continue
		}
		if !p.has(ref) {
			continue
		}
		if err := p.deleteOne(ref); err != nil {
			return nil, nil, err
		}
		gone = append(gone, Change{ref, Deleted})
	}
	return keep, gone, nil
}

func (p *Plan) deleteOne(ref Ref) error {
	switch ref.Kind {
	case "Connection":
		return p.DeleteConnection(ref.Name, false)
	case "Topic":
		return p.DeleteTopic(ref.Name, false)
	case "Connector":
		return p.DeleteConnector(ref.Name, false)
	case "Rule":
		return p.DeleteRule(ref.Name)
	default:
		return p.DeletePipeline(ref.Name)
	}
}

func (p *Plan) has(ref Ref) (ok bool) {
	switch ref.Kind {
	case "Connection":
		_, ok = p.Connections[ref.Name]
	case "Topic":
		_, ok = p.topics[ref.Name]
	case "Connector":
		_, ok = p.Connectors[ref.Name]
	case "Rule":
		_, ok = p.Rules[ref.Name]
	case "Pipeline":
		_, ok = p.Pipelines[ref.Name]
	}
	return ok
}

func (r *Resource) ref() Ref { return Ref{r.Kind, r.Name} }

// compareRefs orders by dependency, then by name.
func compareRefs(a, b Ref) int {
	if d := slices.Index(kinds(), a.Kind) - slices.Index(kinds(), b.Kind); d != 0 {
		return d
	}
	if a.Name < b.Name {
		return -1
	}
	if a.Name > b.Name {
		return 1
	}
	return 0
}

func sameResources(a, b []Resource) bool {
	return slices.EqualFunc(a, b, func(x, y Resource) bool {
		return x.ref() == y.ref() && (string(x.Spec) == string(y.Spec) || sameJSON(x.Spec, y.Spec))
	})
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// inResource puts the place of a resource before the field of an error: its name
// stands beside its spec, in which all else is.
func inResource(here string, err error) error {
	if re, ok := errors.AsType[*rest.Error](err); ok && (re.Field == "name" || re.Field == "kind") {
		return rest.At(here, err)
	}
	return rest.At(here+".spec", err)
}
