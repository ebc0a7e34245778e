package embed

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "",
		"Hello, World-wide 42!":   "hello world wide 42",
		"数据库备份":                   "数据 据库 库备 备份",
		"用Go写":                    "用 go 写",
		"ＡＢＣ１２３":                  "abc123",
		"バックアップ":                  "バッ ック クア アッ ップ",
		"데이터 백업":                  "데이 이터 백업",
		"Zu\u0308rich":            "zürich",
		"a。b":                     "a b",
		"don't":                   "don t",
		"\xff\xfe broken\x00text": "broken text",
	} {
		var got []string
		Words(text, func(w string, _ bool) { got = append(got, w) })
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

func TestStem(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"copy copies", "index indexes indexing indexed", "store stored storing stores", "run running runs", "class classes", "search searches searching", "status", "数据", "v1s", "this", "ring"} {
		words := strings.Fields(family)
		for _, w := range words[1:] {
			if Stem(w) != Stem(words[0]) {
				t.Errorf("%s and %s do not meet: %s, %s", words[0], w, Stem(words[0]), Stem(w))
			}
		}
	}
}

const goldenFile = "testdata/lexical-hash-v1.json"

// golden is a vector's places that are not zero.
type golden struct {
	Text   string             `json:"text"`
	Dims   int                `json:"dims"`
	NGrams bool               `json:"ngrams,omitempty"`
	Values map[string]float64 `json:"values"`
}

// TestGolden holds lexical-hash-v1 to its name: what was embedded once must be
// found with what is embedded later. Where it fails, the model needs a new name.
func TestGolden(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var cases []golden
	if err := json.Unmarshal(raw, &cases); err != nil || len(cases) < 8 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for i, c := range cases {
		values := map[string]float64{}
		for at, v := range NewLexical(c.Dims, c.NGrams).vector(c.Text) {
			if v != 0 {
				values[strconv.Itoa(at)] = math.Round(float64(v)*1e6) / 1e6
			}
		}
		if os.Getenv("MILLRACE_UPDATE") != "" && c.Values == nil { // new cases only
			cases[i].Values = values
			continue
		}
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 2e-6 })
		if diff := cmp.Diff(c.Values, values, near); diff != "" {
			t.Errorf("%q (-want +got)\n%s", c.Text, diff)
		}
	}
	if os.Getenv("MILLRACE_UPDATE") != "" {
		out, err := json.MarshalIndent(cases, "", " ")
		if err == nil {
			err = os.WriteFile(goldenFile, append(out, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func cosine(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestLexical(t *testing.T) {
	t.Parallel()
	l := NewLexical(0, false)
	if l.Info() != (Info{Model: Model, Dims: 1024, Kind: "lexical"}) {
		t.Errorf("%+v", l.Info())
	}
	texts := []string{
		"How do I back up the data directory?", "Backing up: copy the data directory while the node is stopped.", "The server listens on port 8080.",
		"怎么备份数据库", "数据库的备份方法", "服务监听端口", "the of and",
	}
	vectors, err := l.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) []float32 { return vectors[i].Values }
	for i := range texts {
		if n := cosine(at(i), at(i)); math.Abs(n-1) > 1e-6 && texts[i] != "the of and" {
			t.Errorf("%q has length %v", texts[i], n)
		}
	}
	if near, far := cosine(at(0), at(1)), cosine(at(0), at(2)); near < 0.3 || far > 0.15 {
		t.Errorf("near %v, far %v", near, far)
	}
	if near, far := cosine(at(3), at(4)), cosine(at(3), at(5)); near < 0.4 || far > 0.15 {
		t.Errorf("near %v, far %v", near, far)
	}
	if slices.ContainsFunc(at(6), func(v float32) bool { return v != 0 }) {
		t.Error("stopwords alone have a vector")
	}
	g := NewLexical(0, true)
	if with, without := cosine(g.vector("kubernetes"), g.vector("kubrenetes")), cosine(l.vector("kubernetes"), l.vector("kubrenetes")); with < 0.25 || without > 0.01 {
		t.Errorf("a misspelt word: %v with ngrams, %v without", with, without)
	}
}

func FuzzLexical(f *testing.F) {
	f.Add("Hello 世界 ｆｕｌｌ e\u0301 \xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range []*Lexical{NewLexical(64, false), NewLexical(64, true)} {
			v := l.vector(text)
			if n := cosine(v, v); n != 0 && math.Abs(n-1) > 1e-5 {
				t.Fatalf("%q has length %v", text, n)
			}
		}
	})
}

func BenchmarkLexical(b *testing.B) {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog near the river bank at dawn. ", 14) // about 1,000 characters
	l := NewLexical(0, false)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		l.vector(text)
	}
}

func BenchmarkLexicalChinese(b *testing.B) {
	text := strings.Repeat("数据库的备份很简单，只要复制文件就可以了，不需要停机。", 38)
	l := NewLexical(0, false)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		l.vector(text)
	}
}
