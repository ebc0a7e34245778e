package transforms

import (
	"context"

	"millrace/bus/event"
	"millrace/schemas/spec"
	"millrace/transforms/chunk"
	"millrace/transforms/embed"
	"millrace/transforms/load"
)

type loadConfig struct {
	Load load.Config `json:"load" doc:"How to read documents; {} for the defaults." spec:"required"`
	common
}

type chunkConfig struct {
	Chunk chunk.Config `json:"chunk" doc:"How to cut; {} for the defaults." spec:"required"`
	common
}

type embedConfig struct {
	Embed embed.Config `json:"embed" doc:"What makes the vectors; {} for lexical-hash-v1." spec:"required"`
	common
}

func loadKind() Kind {
	return kindOfStep(Kind{Name: "load", Summary: load.Summary, Docs: load.Docs, Example: load.Example},
		func(_ *compiler, config loadConfig) (step, error) {
			return documentStep(load.NewStep(config.Load).Apply), nil
		})
}

func chunkKind() Kind {
	return kindOfStep(Kind{Name: "chunk", Summary: chunk.Summary, Docs: chunk.Docs, Example: chunk.Example},
		func(_ *compiler, config chunkConfig) (step, error) {
			st, err := chunk.NewStep(config.Chunk)
			if err != nil {
				return nil, at("chunk", err)
			}
			return documentStep(st.Apply), nil
		})
}

func embedKind() Kind {
	k := Kind{Name: "embed", Summary: embed.Summary, Docs: embed.Docs, Example: embed.Example, Spec: spec.Of[embedConfig]()}
	k.batch = func(raw map[string]any) (*embed.Step, error) {
		var config embedConfig
		if err := k.Spec.Decode(raw, &config); err != nil {
			return nil, err
		}
		if key := config.Embed.APIKey.Reveal(); key != "" && !spec.IsReference(key) {
			return nil, &Error{Field: "embed.apiKey", Msg: "must be a reference such as ${env:OPENAI_API_KEY}: a rule is shown to all who may read it"}
		}
		e, err := embed.New(config.Embed)
		if err != nil {
			return nil, at("embed", err)
		}
		return embed.NewStep(e), nil
	}
	return k
}

// documentStep is a step of the packages that know documents.
type documentStep func(e event.Event, out []event.Event) ([]event.Event, error)

func (st documentStep) apply(_ *scratch, e event.Event, out []event.Event) ([]event.Event, error) {
	return st(e, out)
}

// batch is step for one that works on all events of a batch at once.
func (r *runner) batch(ctx context.Context, i int, items, out []Result) ([]Result, error) {
	st := &r.chain.steps[i]
	var in []event.Event
	var of []int // places in out
	for n := range items {
		it := &items[n]
		out = append(out, *it)
		if it.Err != nil {
			continue
		}
		r.s.begin(&it.Event)
		if st.cond.holds(&r.s, r.miss(i)) {
			in, of = append(in, it.Event), append(of, n)
		}
	}
	results, err := st.batch.Apply(ctx, in)
	for n := range results {
		made := &out[of[n]]
		if made.Event = results[n].Event; results[n].Err != nil {
			made.Err = &StepError{Index: i, Step: st.name, Err: results[n].Err}
		}
	}
	return out, err
}
