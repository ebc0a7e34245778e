package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	minDocs      = 30
	minQuestions = 30
	// What the questions of examples/questions must reach; a lexical embedder with
	// word search beside it matches words, not meaning.
	minAt1, minAt5 = 0.6, 0.85
	fresh          = 2 * time.Second
)

// prepareDocs copies the project's own documentation and examples/docs to a
// folder that the run can change.
func (r *run) prepareDocs() error {
	dir := filepath.Join(r.dir, "docs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/connectors/*.md", "examples/docs/*"} {
		found, err := filepath.Glob(filepath.Join(r.o.Root, pattern))
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		files = append(files, found...)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		rel, err := filepath.Rel(r.o.Root, f)
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		name := strings.ReplaceAll(strings.TrimPrefix(rel, "examples/docs/"), string(filepath.Separator), "-")
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return nil
}

type hit struct {
	Text     string `json:"text"`
	Document string `json:"document"`
}

func (r *run) search(ctx context.Context, store, query string, top int) ([]hit, error) {
	var answer struct {
		Results []hit `json:"results"`
	}
	err := r.node.call(ctx, "POST", "/search/"+store, nil, map[string]any{"query": query, "top": top}, &answer)
	return answer.Results, err
}

func (r *run) rag(ctx context.Context) error {
	r.begin("documents", "a folder → load → chunk → embed → vectors, asked over HTTP")
	docs, err := os.ReadDir(filepath.Join(r.dir, "docs"))
	if err != nil {
		return err
	}
	r.check(len(docs) >= minDocs, "%d documents: Markdown, HTML, JSON, CSV and text, in English and Chinese", len(docs))
	if err := r.node.apply(ctx, filepath.Join(r.o.Root, "examples", "rag.yaml")); err != nil {
		return err
	}
	took, ok, err := until(ctx, time.Minute, func() (bool, error) { return r.indexed(ctx, len(docs)) })
	if err != nil {
		return err
	}
	r.check(ok, "all of them are in the store after %.1f s", took.Seconds())
	if err := r.askAll(ctx); err != nil {
		return err
	}
	return r.freshness(ctx)
}

// indexed reports whether every document has come through the rule.
func (r *run) indexed(ctx context.Context, docs int) (bool, error) {
	var group struct {
		Queues []struct {
			Topic      string `json:"topic"`
			Next       int    `json:"next"`
			Checkpoint int    `json:"checkpoint"`
		} `json:"queues"`
	}
	read := 0
	for _, name := range []string{"rule-index-documents", "connect-library"} {
		if err := r.node.call(ctx, "GET", "/groups/"+name, nil, nil, &group); err != nil {
			return false, nil //nolint:nilerr // the group comes with its first member
		}
		for _, q := range group.Queues {
			if q.Checkpoint < q.Next {
				return false, nil
			}
			if q.Topic == "documents" {
				read += q.Next
			}
		}
	}
	return read >= docs, nil
}

func (r *run) askAll(ctx context.Context) error {
	b, err := os.ReadFile(filepath.Join(r.o.Root, "examples", "questions", "questions.jsonl"))
	if err != nil {
		return err
	}
	asked, at1, at5 := 0, 0, 0
	var missed []string
	for line := range bytes.Lines(b) {
		var q struct{ Question, Document string }
		if err := json.Unmarshal(line, &q); err != nil {
			return fmt.Errorf("questions.jsonl: %w", err)
		}
		hits, err := r.search(ctx, "library", q.Question, 5)
		if err != nil {
			return err
		}
		asked++
		at := slices.IndexFunc(hits, func(h hit) bool { return filepath.Base(h.Document) == q.Document })
		switch {
		case at == 0:
			at1++
			at5++
		case at > 0:
			at5++
		default:
			missed = append(missed, q.Question)
		}
	}
	if asked < minQuestions {
		return fmt.Errorf("only %d questions", asked)
	}
	for _, q := range missed {
		r.say("         not among the first five: %s", q)
	}
	share := func(n int) float64 { return float64(n) / float64(asked) }
	r.check(share(at1) >= minAt1 && share(at5) >= minAt5, "%d questions: recall@1 %.2f (want %.2f), recall@5 %.2f (want %.2f)",
		asked, share(at1), minAt1, share(at5), minAt5)
	return nil
}

// freshness edits one document and deletes another; the answers follow.
func (r *run) freshness(ctx context.Context) error {
	edited := filepath.Join(r.dir, "docs", "returns.md")
	b, err := os.ReadFile(edited)
	if err != nil {
		return err
	}
	const question = "Within how many days of delivery may customers send a bicycle back?"
	says := func(days string) (bool, error) {
		hits, err := r.search(ctx, "library", question, 5)
		return slices.ContainsFunc(hits, func(h hit) bool {
			return filepath.Base(h.Document) == "returns.md" && strings.Contains(h.Text, days)
		}), err
	}
	before, err := says("thirty days")
	if err != nil {
		return err
	}
	r.check(before, "%q: thirty", question)
	after := bytes.Replace(b, []byte("thirty days"), []byte("ninety-nine days"), 1)
	if err := os.WriteFile(edited, after, 0o600); err != nil {
		return err
	}
	took, ok, err := until(ctx, 10*time.Second, func() (bool, error) {
		isNew, err := says("ninety-nine days")
		if err != nil || !isNew {
			return false, err
		}
		isOld, err := says("thirty days")
		return !isOld, err
	})
	if err != nil {
		return err
	}
	r.check(ok && took <= fresh, "one document edited: the answer follows after %d ms (at most %d)", took.Milliseconds(), fresh.Milliseconds())
	if err := os.Remove(filepath.Join(r.dir, "docs", "recall-2025.md")); err != nil {
		return err
	}
	took, ok, err = until(ctx, 10*time.Second, func() (bool, error) {
		hits, err := r.search(ctx, "library", "Which serial numbers of the Plover are affected by the fork recall?", 5)
		return !slices.ContainsFunc(hits, func(h hit) bool { return filepath.Base(h.Document) == "recall-2025.md" }), err
	})
	if err != nil {
		return err
	}
	r.check(ok && took <= fresh, "one document deleted: it is gone from the answers after %d ms (at most %d)", took.Milliseconds(), fresh.Milliseconds())
	return nil
}
