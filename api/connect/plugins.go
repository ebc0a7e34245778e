package connect

import (
	"context"
	"log/slog"
	"slices"

	"millrace/api/desired"
	"millrace/api/rest"
	"millrace/connectors"
	"millrace/schemas/spec"
)

type plugin struct {
	Class   string `json:"class"`
	Type    string `json:"type"`
	Version string `json:"version"`
}

// plugins lists the classes of connectors; there are no other kinds of plugins,
// whatever connectorsOnly says.
func (s *Service) plugins(context.Context, *rest.Request) (rest.Answer, error) {
	out := []plugin{}
	for _, p := range s.Desired.Plugins() {
		if p.Sink != nil {
			out = append(out, plugin{p.Name + "-sink", "sink", s.Version})
		}
		if p.Source != nil {
			out = append(out, plugin{p.Name + "-source", "source", s.Version})
		}
	}
	return rest.OK(out)
}

// class is a plugin's class by any of its names.
type class struct {
	name  string // such as "file-source"
	kind  string // source or sink
	alias bool   // it was named by an alias
	keys  *spec.Spec
}

func (s *Service) class(name string) (class, error) {
	p, source, sink, err := connectors.Lookup(s.Desired.Plugins(), name)
	switch {
	case err != nil:
		return class{}, rest.NotFound("Unknown plugin %s.", name)
	case source != nil:
		own := p.Name + "-source"
		return class{own, "source", name != own, source.Full()}, nil
	default:
		own := p.Name + "-sink"
		return class{own, "sink", name != own, sink.Full()}, nil
	}
}

func (s *Service) pluginConfig(_ context.Context, r *rest.Request) (rest.Answer, error) {
	c, err := s.class(r.Params["plugin"])
	if err != nil {
		return rest.Answer{}, err
	}
	return rest.OK(c.keys.Keys())
}

// validation is Connect's ConfigInfos.
type validation struct {
	Name       string           `json:"name"`
	ErrorCount int              `json:"error_count"`
	Groups     []string         `json:"groups"`
	Configs    []spec.KeyResult `json:"configs"`
}

// validate answers 200 whatever is wrong with the config; it touches nothing.
func (s *Service) validate(_ context.Context, r *rest.Request) (rest.Answer, error) {
	raw, err := r.Object()
	if err != nil {
		return rest.Answer{}, err
	}
	config, err := rest.FlatConfig(raw)
	if err != nil {
		return rest.Answer{}, err
	}
	name := r.Params["plugin"]
	c, err := s.class(name)
	if err != nil {
		return rest.Answer{}, err
	}
	alias := c.alias
	if given, ok := config["connector.class"]; ok {
		other, err := s.class(given)
		if err != nil || other.name != c.name {
			return rest.Answer{}, rest.Bad("connector.class", "Included connector type %s does not match request type %s", given, name)
		}
		alias = other.alias
	}
	v := validation{Name: name, Groups: []string{}, Configs: c.keys.Validate(spec.FromStrings(config))}
	if alias {
		for i := range v.Configs {
			if v.Configs[i].Definition == nil { // accepted and ignored
				v.Configs[i].Value.Errors = []string{}
			}
		}
	}
	s.addChecks(&v, config)
	for _, k := range v.Configs {
		v.ErrorCount += len(k.Value.Errors)
		if k.Definition != nil && !slices.Contains(v.Groups, k.Definition.Group) {
			v.Groups = append(v.Groups, k.Definition.Group)
		}
	}
	return rest.OK(v)
}

// addChecks adds what only the whole config tells, once its keys are fine.
func (s *Service) addChecks(v *validation, config map[string]string) {
	for _, k := range v.Configs {
		if len(k.Value.Errors) > 0 {
			return
		}
	}
	_, err := s.Desired.Check(config)
	if err == nil {
		return
	}
	for _, p := range desired.Problems(err) {
		i := slices.IndexFunc(v.Configs, func(k spec.KeyResult) bool { return k.Value.Name == p.Path })
		if i < 0 {
			i = slices.IndexFunc(v.Configs, func(k spec.KeyResult) bool { return k.Value.Name == "connector.class" })
		}
		if i >= 0 {
			v.Configs[i].Value.Errors = append(v.Configs[i].Value.Errors, p.Msg)
		}
	}
}

type loggerLevel struct {
	Level        string `json:"level"`
	LastModified *int64 `json:"last_modified"`
}

// level is the lowest level that the node logs.
func (s *Service) level(ctx context.Context) loggerLevel {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if s.Logger.Enabled(ctx, l) {
			return loggerLevel{Level: l.String()}
		}
	}
	return loggerLevel{Level: "OFF"}
}

// rootLogger is the only logger there is.
const rootLogger = "root"

func (s *Service) loggers(ctx context.Context, _ *rest.Request) (rest.Answer, error) {
	return rest.OK(map[string]loggerLevel{rootLogger: s.level(ctx)})
}

func (s *Service) logger(ctx context.Context, r *rest.Request) (rest.Answer, error) {
	if r.Params["logger"] != rootLogger {
		return rest.Answer{}, rest.NotFound("Logger %s not found.", r.Params["logger"])
	}
	return rest.OK(s.level(ctx))
}
