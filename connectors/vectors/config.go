package vectors

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"millrace/connectors"
	"millrace/schemas/spec"
	"millrace/transforms/embed"
)

type config struct {
	Path       string       `json:"path" doc:"The store's file; a relative path is below the connector's own directory under the data directory." default:"vectors.db" spec:"importance=high"`
	Embed      embed.Config `json:"embed" doc:"What embeds questions, and text that comes without a vector: as the step embed, and the same as the one that made the vectors." spec:"importance=high"`
	Dimensions int          `json:"dimensions" doc:"Length of the vectors; 0 takes what the first one has." default:"0" spec:"min=0,max=8192"`
	Identity   string       `json:"identity" doc:"What names the document of an event that says none itself: its key (where it has none its subject or id), or always its id." default:"key" spec:"enum=key|id"`
}

// Check says what tags cannot.
func (c *config) Check() error {
	var problems []spec.Problem
	if err := c.Embed.Check(); err != nil {
		var se *spec.Error
		if !errors.As(err, &se) {
			return err
		}
		for _, p := range se.Problems {
			problems = append(problems, spec.Problem{Path: "embed." + p.Path, Msg: p.Msg})
		}
	}
	if want := c.lexicalDims(); want > 0 && c.Dimensions > 0 && c.Dimensions != want {
		problems = append(problems, spec.Problem{Path: "dimensions", Msg: fmt.Sprintf("is %d, but embed makes vectors of %d: leave one out", c.Dimensions, want)})
	}
	if problems != nil {
		return &spec.Error{Problems: problems}
	}
	return nil
}

func (c *config) lexicalDims() int {
	if c.Embed.URL != "" {
		return c.Embed.Dimensions
	}
	return embed.NewLexical(c.Embed.Dimensions, false).Info().Dims
}

// file is where the store is.
func (c *config) file(env *connectors.Env) (string, error) {
	path := c.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(env.DataDir, path)
	}
	return filepath.Abs(path)
}

// Plugin is the vectors sink.
func Plugin() connectors.Plugin {
	sink := connectors.SinkOf(open)
	s := sink.Spec
	sink.Guarantee = "Exactly once: offsets are stored in the transaction that stores the data."
	sink.Search = func(_ context.Context, raw map[string]any, env connectors.Env) (connectors.Searcher, error) {
		resolved, err := spec.Resolve(raw)
		if err != nil {
			return nil, err
		}
		var c config
		if err := s.Decode(resolved, &c); err != nil {
			return nil, err
		}
		return newSearcher(c, env)
	}
	return connectors.Plugin{
		Name:    "vectors",
		Summary: "An embedded vector store in one file, searched by vector and by words together.",
		Docs: `Takes what the steps load, chunk and embed make. A chunk belongs to ` + "`data.document`" + ` and says by ` + "`data.seq`" + ` and ` + "`data.total`" + ` how many there are.
Once all chunks of a document's new version are there, they replace the old ones at one moment; a searcher never sees half a document, or none.
A total of 0, or a tombstone with the document's key, deletes it.

Any other JSON event with ` + "`data.text`" + ` is a document of one chunk. Text without ` + "`data.embedding`" + ` is embedded by the sink as ` + "`embed`" + ` says.

What is older than the stored version, by its position in the topic it first stood in, is left out: late and redriven events never bring old
text back. A topic that is deleted and made again under its name begins at 0 again: where events come to the sink through a second topic, delete the store's
file then too.

` + "`POST /search/{sink}`" + ` takes a question, embeds it, and joins the best by vector and the best by words (BM25, with the word's stem; Chinese, Japanese
and Korean by pairs of characters) by reciprocal rank. ` + "`filter`" + ` wants members of the metadata, title and format among them, or ` + "`document`" + ` to be
equal; of a list one element. The score only ranks.

` + "`embed`" + ` must be the one that made the vectors. With the default, lexical-hash-v1, the search is lexical: it matches words, not meaning. Vectors of
another length than the store's fail for good and say both lengths; a store made with another model refuses to open.

The vectors are compared one by one: good for about 100,000 chunks. One file, which several tasks share: SQLite with a write-ahead log beside it.
`,
		Sink: sink,
	}
}
