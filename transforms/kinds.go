package transforms

import (
	"encoding/json"

	"millrace/schemas/spec"
	"millrace/transforms/embed"
)

// Kind is one kind of step.
type Kind struct {
	Name    string
	Summary string // one sentence
	Docs    string // Markdown: what it does exactly
	Example string // one step, in YAML
	// Spec describes the keys of a step of this kind, `if` included.
	Spec *spec.Spec

	compile func(c *compiler, config map[string]any) (step, error)
	batch   func(config map[string]any) (*embed.Step, error) // in place of compile
}

// common is what every step allows beside its own keys.
type common struct {
	If json.RawMessage `json:"if" doc:"Run the step only on events that match: an event pattern, or text that is an expression. Other events pass unchanged."`
}

// List returns all kinds of steps, in the order of the documentation.
func List() []Kind {
	return []Kind{
		setKind(), setAttributesKind(), renameKind(), removeKind(), keepKind(), castKind(),
		templateKind(), filterKind(), unwrapKind(), splitKind(),
		loadKind(), chunkKind(), embedKind(),
	}
}

// kindOfStep makes a Kind whose config is the struct C.
func kindOfStep[C any](k Kind, compile func(c *compiler, config C) (step, error)) Kind {
	s := spec.Of[C]()
	k.Spec = s
	k.compile = func(c *compiler, raw map[string]any) (step, error) {
		var config C
		if err := s.Decode(raw, &config); err != nil {
			return nil, err
		}
		return compile(c, config)
	}
	return k
}
