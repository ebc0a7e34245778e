package connectors

import (
	"context"

	"millrace/schemas/spec"
)

// Plugin is one system's connector: what it is called, what it is for, how it
// is configured and opened. connector.class is Name + "-source" or "-sink".
type Plugin struct {
	Name    string // such as "file"
	Summary string // one line
	Docs    string // Markdown: guarantees, limits, examples
	Source  *SourceKind
	Sink    *SinkKind
}

// SourceKind opens sources of one kind.
type SourceKind struct {
	Spec *spec.Spec
	// MaxTasks bounds tasks.max; 0 means 1.
	MaxTasks int
	// Guarantee is the honest line for the docs, such as "exactly once into the topic".
	Guarantee string
	Aliases   []string // class names of other runtimes that mean this one
	// Open starts one task. Config was decoded and validated by Spec.
	Open func(ctx context.Context, config map[string]any, env Env) (Source, error)
	// Receiver, in place of Open, makes a source that is served by the api and has no task.
	Receiver func(config map[string]any, env Env) (Receiver, error)
	// Check does the checks that tags cannot say, without touching the outside.
	Check func(config map[string]any) error
}

// SinkKind opens sinks of one kind.
type SinkKind struct {
	Spec      *spec.Spec
	Guarantee string
	Aliases   []string
	Open      func(ctx context.Context, config map[string]any, env Env) (Sink, error)
	// Search opens the store for reading only, beside a running sink; nil where the
	// target cannot be asked.
	Search func(ctx context.Context, config map[string]any, env Env) (Searcher, error)
	Check  func(config map[string]any) error
}

// SourceOf makes a SourceKind from a config struct and its open function. A C
// that has a Check() error method is checked after decoding. It panics when C's
// tags are malformed, which is a bug found by any test.
func SourceOf[C any](open func(context.Context, C, Env) (Source, error)) *SourceKind {
	s := spec.Of[C]()
	return &SourceKind{
		Spec:  s,
		Check: check[C](s),
		Open: func(ctx context.Context, config map[string]any, env Env) (Source, error) {
			c, err := decode[C](s, config)
			if err != nil {
				return nil, err
			}
			return open(ctx, c, env)
		},
	}
}

// ReceiverOf is SourceOf for sources served by the api.
func ReceiverOf[C any](open func(C, Env) (Receiver, error)) *SourceKind {
	s := spec.Of[C]()
	return &SourceKind{
		Spec:  s,
		Check: check[C](s),
		Receiver: func(config map[string]any, env Env) (Receiver, error) {
			c, err := decode[C](s, config)
			if err != nil {
				return nil, err
			}
			return open(c, env)
		},
	}
}

// SinkOf is SourceOf for sinks.
func SinkOf[C any](open func(context.Context, C, Env) (Sink, error)) *SinkKind {
	s := spec.Of[C]()
	return &SinkKind{
		Spec:  s,
		Check: check[C](s),
		Open: func(ctx context.Context, config map[string]any, env Env) (Sink, error) {
			c, err := decode[C](s, config)
			if err != nil {
				return nil, err
			}
			return open(ctx, c, env)
		},
	}
}

// checker is a config that can check more than its tags say.
type checker interface{ Check() error }

func check[C any](s *spec.Spec) func(map[string]any) error {
	return func(config map[string]any) error {
		var c C
		// References stay unresolved: checking must not need the secret.
		if err := s.Decode(config, &c); err != nil {
			return err
		}
		if ch, ok := any(&c).(checker); ok {
			return ch.Check()
		}
		return nil
	}
}

// decode resolves references, then decodes and checks.
func decode[C any](s *spec.Spec, config map[string]any) (C, error) {
	var c C
	resolved, err := spec.Resolve(config)
	if err != nil {
		return c, err
	}
	if err := s.Decode(resolved, &c); err != nil {
		return c, err
	}
	if ch, ok := any(&c).(checker); ok {
		if err := ch.Check(); err != nil {
			return c, err
		}
	}
	return c, nil
}
