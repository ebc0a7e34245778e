package connectors

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/schemas/spec"
)

// Lookup finds the plugin that a connector.class means: "<name>-source" or
// "<name>-sink", or an alias by its full name, its simple name, or that without
// "Connector". Exactly one of the kinds is set. The error is a *spec.Error for
// the key connector.class.
func Lookup(plugins []Plugin, class string) (Plugin, *SourceKind, *SinkKind, error) {
	var known []string
	for _, p := range plugins {
		if p.Source != nil {
			if class == p.Name+"-source" || isAlias(p.Source.Aliases, class) {
				return p, p.Source, nil, nil
			}
			known = append(known, p.Name+"-source")
		}
		if p.Sink != nil {
			if class == p.Name+"-sink" || isAlias(p.Sink.Aliases, class) {
				return p, nil, p.Sink, nil
			}
			known = append(known, p.Name+"-sink")
		}
	}
	msg := fmt.Sprintf("there is no connector class %q", class)
	if class == "" {
		msg = "is required: the connector's class, such as file-source"
	} else if near := spec.Nearest(class, known); near != "" {
		msg += fmt.Sprintf(", did you mean %q?", near)
	} else {
		msg += "; known are " + strings.Join(known, ", ")
	}
	return Plugin{}, nil, nil, &spec.Error{Problems: []spec.Problem{{Path: "connector.class", Msg: msg}}}
}

func isAlias(aliases []string, class string) bool {
	return slices.ContainsFunc(aliases, func(full string) bool {
		simple := full[strings.LastIndexByte(full, '.')+1:]
		return class != "" && (class == full || class == simple || class == strings.TrimSuffix(simple, "Connector"))
	})
}

// Full is the spec of a source's whole config: what all sources have, and its own.
func (k *SourceKind) Full() *spec.Spec { return spec.Join(spec.Of[SourceConfig](), k.Spec) }

// Full is the spec of a sink's whole config: what all sinks have, and its own.
func (k *SinkKind) Full() *spec.Spec { return spec.Join(spec.Of[SinkConfig](), k.Spec) }

// Parsed is a connector's whole config, taken apart and checked. Exactly one of
// Source and Sink is set.
type Parsed struct {
	Plugin Plugin
	Class  string // its own name, such as "file-source"
	Source *SourceKind
	Sink   *SinkKind
	// SourceConfig or SinkConfig holds the common keys, references unresolved.
	SourceConfig SourceConfig
	SinkConfig   SinkConfig
	// Own is what Open, Receiver and Check of the kind take, references unresolved.
	Own map[string]any
	// Ignored are the keys that nobody knows. Only configs written for another
	// runtime, under an alias, may have such.
	Ignored []string
}

// Common are the keys that sources and sinks share.
func (p *Parsed) Common() Common {
	if p.Source != nil {
		return p.SourceConfig.Common
	}
	return p.SinkConfig.Common
}

// Parse takes a connector's whole config apart and checks all of it, touching
// nothing outside. Values may be text or JSON. The error is a *spec.Error with all
// problems; it comes with the parts that could be told all the same.
func Parse(plugins []Plugin, config map[string]any) (Parsed, error) {
	class, _ := config["connector.class"].(string)
	plugin, source, sink, err := Lookup(plugins, class)
	if err != nil {
		return Parsed{}, err
	}
	p := Parsed{Plugin: plugin, Source: source, Sink: sink, Own: map[string]any{}}
	var full, own *spec.Spec
	var check func(map[string]any) error
	if source != nil {
		p.Class, full, own, check = plugin.Name+"-source", source.Full(), source.Spec, source.Check
	} else {
		p.Class, full, own, check = plugin.Name+"-sink", sink.Full(), sink.Spec, sink.Check
	}
	known := map[string]any{}
	for key, value := range config {
		if class != p.Class && !full.Has(key) {
			p.Ignored = append(p.Ignored, key)
			continue
		}
		known[key] = value
		if own.Has(key) {
			p.Own[key] = value
		}
	}
	slices.Sort(p.Ignored)
	if source != nil {
		err = full.Decode(known, &p.SourceConfig)
	} else if err = full.Decode(known, &p.SinkConfig); err == nil {
		err = p.SinkConfig.Check()
	}
	if err != nil {
		return p, err
	}
	if check != nil {
		if err := check(p.Own); err != nil {
			return p, asSpecError(err)
		}
	}
	return p, nil
}

// asSpecError gives every error of a check the one form.
func asSpecError(err error) error {
	if _, ok := errors.AsType[*spec.Error](err); ok {
		return err
	}
	return &spec.Error{Problems: []spec.Problem{{Msg: err.Error()}}}
}
