package embed

import (
	"context"
	"math"
	"strings"
	"unicode/utf8"
)

// Lexical is lexical-hash-v1: it hashes the words of a text, each to one place of
// the vector and a sign, with weight 1 + log of how often it stands there, and
// scales the vector to length 1. It finds words, not meanings: a synonym is
// another word to it. Vectors depend on the text alone and stay as they are for
// as long as the model is called v1.
type Lexical struct {
	dims   int
	ngrams bool
}

// NewLexical makes one; dims 0 means 1024.
func NewLexical(dims int, ngrams bool) *Lexical {
	if dims == 0 {
		dims = 1024
	}
	return &Lexical{dims, ngrams}
}

// Info implements Embedder.
func (l *Lexical) Info() Info {
	model := Model
	if l.ngrams {
		model += "+ngrams"
	}
	return Info{Model: model, Dims: l.dims, Kind: "lexical"}
}

// Embed implements Embedder. A text without words has the zero vector.
func (l *Lexical) Embed(ctx context.Context, texts []string) ([]Vector, error) {
	out := make([]Vector, len(texts))
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out[i].Values = l.vector(text)
	}
	return out, nil
}

// vector sums in the order in which words first appear, so that rounding is the
// same wherever it runs.
func (l *Lexical) vector(text string) []float32 {
	var order []string
	weight := map[string]float64{}
	add := func(term string, w float64) {
		if _, seen := weight[term]; !seen {
			order = append(order, term)
		}
		weight[term] += w
	}
	Words(text, func(word string, cjk bool) {
		if Stopword(word) {
			return
		}
		if cjk {
			add(word, 1)
			return
		}
		add(Stem(word), 1)
		if l.ngrams {
			grams(word, func(g string) { add(g, 0.25) })
		}
	})
	sum := make([]float64, l.dims)
	for _, term := range order {
		w := weight[term]
		if w > 1 {
			w = 1 + math.Log(w)
		}
		h := hash(term)
		if h>>63 == 1 {
			w = -w
		}
		sum[h%uint64(l.dims)] += w
	}
	norm := 0.0
	for _, v := range sum {
		norm += v * v
	}
	out := make([]float32, l.dims)
	if norm == 0 {
		return out
	}
	norm = math.Sqrt(norm)
	for i, v := range sum {
		out[i] = float32(v / norm)
	}
	return out
}

// grams calls f for the parts of a word of 3 to 5 characters, its ends marked.
func grams(word string, f func(string)) {
	word = "<" + word + ">"
	var at []int // where characters begin
	for i := range word {
		at = append(at, i)
	}
	at = append(at, len(word))
	for n := 3; n <= 5; n++ {
		for i := 0; i+n < len(at); i++ {
			f(word[at[i]:at[i+n]])
		}
	}
}

// hash is FNV-1a with its bits mixed, so that the lowest and the highest are even.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// Passage is what is embedded for a chunk: the titles above it and its text, so
// that a chunk says what it is about.
func Passage(title string, titlePath []string, text string) string {
	var b strings.Builder
	if title != "" && (len(titlePath) == 0 || titlePath[0] != title) {
		b.WriteString(title + "\n")
	}
	if len(titlePath) > 0 {
		b.WriteString(strings.Join(titlePath, " / ") + "\n")
	}
	if b.Len() > 0 && utf8.RuneCountInString(text) > 0 {
		b.WriteString("\n")
	}
	b.WriteString(text)
	return b.String()
}
