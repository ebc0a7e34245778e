package vectors

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"millrace/connectors"
	"millrace/transforms/embed"
)

// searcher asks a store beside the sink that writes it. It holds nothing open
// between questions.
type searcher struct {
	path     string
	c        config
	embedder embed.Embedder
}

func newSearcher(c config, env connectors.Env) (*searcher, error) {
	path, err := c.file(&env)
	if err != nil {
		return nil, err
	}
	e, err := embed.New(c.Embed)
	return &searcher{path, c, e}, err
}

const (
	defaultTop = 5
	maxTop     = 1000
	// rankShift is the constant of reciprocal rank fusion: how little the first
	// ranks of one list outweigh those of the other.
	rankShift = 60
	// atLeast is how many of each list are looked at, at least.
	atLeast = 50
)

// Search implements connectors.Searcher. A store that is not there yet has no hits.
func (s *searcher) Search(ctx context.Context, q connectors.Query) (hits []connectors.Hit, err error) {
	top := q.Top
	if top <= 0 {
		top = defaultTop
	}
	top = min(top, maxTop)
	where, args, err := filter(q.Filter)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := connect(s.path, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f, err := factsOf(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("path: %s: %w", s.path, notStore(err))
	}
	if err := s.c.fits(f, s.embedder.Info().Model); err != nil {
		return nil, err
	}
	vector, err := s.vector(ctx, q.Text, f)
	if err != nil {
		return nil, err
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true}) // one state of the store for all that follows
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	limit := max(atLeast, 4*top)
	score := map[int64]float64{}
	match := match(q.Text)
	lexical := s.embedder.Info().Kind == "lexical" && !s.c.Embed.NGrams
	if vector != nil && (match != "" || !lexical) {
		narrow, narrowArgs := within("id", where), args
		if lexical {
			// Words of hashed vectors meet by chance too; those that share none are out.
			narrow = ` and id in (select rowid from fts where fts match ?` + within("rowid", where) + `)`
			narrowArgs = slices.Concat([]any{match}, args)
		}
		err = ranks(ctx, tx, score, `select id, distance from vec where embedding match ? and k = ?`+narrow+` order by distance`,
			slices.Concat([]any{blob(vector), limit}, narrowArgs)...)
		if err != nil {
			return nil, err
		}
	}
	if match != "" {
		err = ranks(ctx, tx, score, `select rowid, bm25(fts, 2.0, 1.0) as score from fts where fts match ?`+within("rowid", where)+` order by score limit ?`,
			slices.Concat([]any{match}, args, []any{limit})...)
		if err != nil {
			return nil, err
		}
	}
	best := slices.SortedFunc(maps.Keys(score), func(a, b int64) int {
		return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b))
	})
	for _, id := range best[:min(top, len(best))] {
		h, err := hit(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		h.Score = score[id]
		hits = append(hits, h)
	}
	return hits, nil
}

// vector embeds the question; nil where the store has no vectors, or the question
// no words.
func (s *searcher) vector(ctx context.Context, text string, f facts) ([]float32, error) {
	if f.dims == 0 || strings.TrimSpace(text) == "" {
		return nil, nil
	}
	vectors, err := s.embedder.Embed(ctx, []string{text})
	if err == nil {
		err = vectors[0].Err
	}
	if err != nil {
		return nil, fmt.Errorf("embed: %w", err)
	}
	v := vectors[0].Values
	if len(v) != f.dims {
		return nil, fmt.Errorf("dimensions: the question's vector has %d, but the store's vectors have %d: set embed to the model that made them", len(v), f.dims)
	}
	if zero(v) {
		return nil, nil
	}
	return v, nil
}

// unrelated is the cosine distance from which on two texts have nothing in common.
// BM25 scores are below 0.
const unrelated = 1 - 1e-6

// ranks adds to the score of each row what its place in a list is worth.
func ranks(ctx context.Context, tx *sql.Tx, score map[int64]float64, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	for rank := 1; rows.Next(); rank++ {
		var id int64
		var distance float64
		if err := rows.Scan(&id, &distance); err != nil {
			return err
		}
		if distance >= unrelated {
			break
		}
		score[id] += 1 / float64(rankShift+rank)
	}
	return rows.Err()
}

// within narrows a list to the rows that a filter takes.
func within(id, where string) string {
	if where == "" {
		return ""
	}
	return " and " + id + " in (select rowid from chunks where " + where + ")"
}

// filter makes SQL of a filter: the document, or members of the metadata, are
// equal; of a list any one is.
func filter(f map[string]any) (where string, args []any, err error) {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(f)) {
		value := f[key]
		switch v := value.(type) {
		case string, float64, int, int64:
		case bool:
			if value = 0; v {
				value = 1
			}
		case json.Number:
			if n, err := v.Int64(); err == nil {
				value = n
			} else if value, err = v.Float64(); err != nil {
				return "", nil, &connectors.HTTPError{Status: 400, Field: "filter." + key, Msg: "is no number"}
			}
		default:
			return "", nil, &connectors.HTTPError{Status: 400, Field: "filter." + key, Msg: "must be text, a number, true or false"}
		}
		if key == "document" {
			parts, args = append(parts, "document = ?"), append(args, value)
			continue
		}
		if strings.ContainsAny(key, `"\`) {
			return "", nil, &connectors.HTTPError{Status: 400, Field: "filter." + key, Msg: "must not hold quotes or backslashes"}
		}
		path := `$."` + strings.ReplaceAll(strings.TrimPrefix(key, "metadata."), ".", `"."`) + `"`
		parts, args = append(parts, "? in (select value from json_each(metadata, ?))"), append(args, value, path)
	}
	return strings.Join(parts, " and "), args, nil
}

// match asks the word index for any of a question's words.
func match(text string) string {
	var all, telling []string
	seen := map[string]bool{}
	embed.Words(text, func(word string, _ bool) {
		if seen[word] {
			return
		}
		seen[word] = true
		quoted := `"` + word + `"` // words hold no quotes
		all = append(all, quoted)
		if !embed.Stopword(word) {
			telling = append(telling, quoted)
		}
	})
	if len(telling) == 0 {
		telling = all
	}
	return strings.Join(telling[:min(len(telling), maxTerms)], " OR ")
}

// maxTerms bounds what is looked for.
const maxTerms = 200

func hit(ctx context.Context, tx *sql.Tx, id int64) (h connectors.Hit, err error) {
	var metadata string
	err = tx.QueryRowContext(ctx, `select id, document, text, metadata from chunks where rowid = ?`, id).Scan(&h.ID, &h.Document, &h.Text, &metadata)
	if err != nil {
		return h, err
	}
	dec := json.NewDecoder(strings.NewReader(metadata))
	dec.UseNumber()
	return h, dec.Decode(&h.Metadata)
}
