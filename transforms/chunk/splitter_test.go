package chunk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// TestMarkdown runs testdata/markdown.txtar: pairs of a text and its chunks. The
// name of a text ends in the size.
func TestMarkdown(t *testing.T) {
	t.Parallel()
	const file = "testdata/markdown.txtar"
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		in, want := archive.Files[i], &archive.Files[i+1]
		t.Run(in.Name, func(t *testing.T) {
			var size int
			if _, err := fmt.Sscanf(in.Name[strings.LastIndexByte(in.Name, ' ')+1:], "%d", &size); err != nil {
				t.Fatal(err)
			}
			s, err := New(Options{Strategy: Markdown, Size: size, Separators: Sentences(), Keep: KeepEnd})
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			text := string(in.Data)
			for _, c := range s.Split(text) {
				fmt.Fprintf(&got, "%q %q\n", strings.Join(c.TitlePath, " > "), c.Text)
				if text[c.Start:c.End] != c.Text {
					t.Errorf("%q is not what stands at %d to %d", c.Text, c.Start, c.End)
				}
			}
			if os.Getenv("MILLRACE_UPDATE") != "" {
				want.Data = []byte(got.String())
			}
			if diff := cmp.Diff(string(want.Data), got.String()); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	if os.Getenv("MILLRACE_UPDATE") != "" {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFixed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, overlap int
		text          string
		want          []string
	}{
		{4, 0, "abcdefghij", []string{"abcd", "efgh", "ij"}},
		{4, 1, "abcdefghij", []string{"abcd", "defg", "ghij"}},
		{4, 4, "abcdef", []string{"abcd", "bcde", "cdef"}},
		{3, 0, "数据库和索引", []string{"数据库", "和索引"}},
		{2, 0, "ae\u0301b", []string{"a", "e\u0301", "b"}},
		{3, 0, "a\r\n\r\nb", []string{"a", "b"}},
		{1, 0, "e\u0301\u0302", []string{"e", "\u0301", "\u0302"}},
		{5, 2, "", nil},
	} {
		s, err := New(Options{Strategy: Fixed, Size: c.size, Overlap: c.overlap})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, ch := range s.Split(c.text) {
			got = append(got, ch.Text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q by %d, overlap %d (-want +got)\n%s", c.text, c.size, c.overlap, diff)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"size: must be at least 1":        {Size: -1},
		"overlap: must not be negative":   {Overlap: -1},
		"overlap: 11 is more than":        {Size: 10, Overlap: 11},
		`strategy: "semantic" is none`:    {Strategy: "semantic"},
		`language: "latin" is none`:       {Language: "latin"},
		"separators[0]: error parsing re": {Separators: []string{"("}, Regexp: true},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, not %s", o, err, want)
		}
	}
}

// check splits a text in every way and checks what the package promises.
func check(t *testing.T, text string, size, overlap int) {
	t.Helper()
	for _, strategy := range []string{Recursive, Markdown, Fixed} {
		s, err := New(Options{Strategy: strategy, Size: size, Overlap: overlap})
		if err != nil {
			t.Fatal(err)
		}
		seen, last := 0, -1
		for _, c := range s.Split(text) {
			if text[c.Start:c.End] != c.Text {
				t.Fatalf("%s of %q: %q is not what stands at %d to %d", strategy, text, c.Text, c.Start, c.End)
			}
			if n := utf8.RuneCountInString(c.Text); n > size || n == 0 {
				t.Fatalf("%s of %q: %q has %d code points", strategy, text, c.Text, n)
			}
			if c.Start < last || c.End <= seen && strategy == Fixed {
				t.Fatalf("%s of %q: no progress at %d", strategy, text, c.Start)
			}
			if c.Start > seen && !mayMiss(strategy, text[seen:c.Start]) {
				t.Fatalf("%s of %q: %q is in no chunk", strategy, text, text[seen:c.Start])
			}
			seen, last = max(seen, c.End), c.Start
		}
		if !mayMiss(strategy, text[seen:]) {
			t.Fatalf("%s of %q: %q is in no chunk", strategy, text, text[seen:])
		}
	}
}

// mayMiss reports whether no chunk needs to hold a text: white space, and headings,
// which are in the title path.
func mayMiss(strategy, text string) bool {
	if strategy != Markdown {
		return strings.TrimFunc(text, isSpace) == ""
	}
	for b := range blocks(text) {
		if b.level == 0 && strings.TrimFunc(text[b.start:b.end], isSpace) != "" {
			return false
		}
	}
	return true
}

func FuzzSplit(f *testing.F) {
	for _, text := range []string{
		"", "a b\n\nc", "# A\n\ntext\n## B\n```\ncode\n\n# no\n```\n|a|b|\n|-|-|\n|1|2|\n", "数据库。索引！\n\n怎么备份？", "e\u0301\r\n\r\n\xff\xfe",
		"Title\n===\n\nunder\n---\n", "~~~\nopen", strings.Repeat("a", 100), "#\n##\n# #\n",
	} {
		f.Add(text, uint8(10), uint8(3))
		f.Add(text, uint8(1), uint8(0))
	}
	f.Fuzz(func(t *testing.T, text string, size, overlap uint8) {
		n := int(size)%64 + 1
		check(t, text, n, int(overlap)%(n+1))
	})
}

// TestRandom checks texts made of what the splitters look at.
func TestRandom(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"# ", "## ", "#### x", "\n", "\n\n", "```", "~~~", "|a|b|\n|-|-|\n", "|", "---\n", "===\n", "word ", "数据", "e\u0301", "\r\n", "\t", " ", "x", "\u3000", strings.Repeat("y", 30)}
	for end := time.Now().Add(soak(t) / 5); time.Now().Before(end); {
		var b strings.Builder
		for range r.IntN(60) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		size := 1 + r.IntN(50)
		check(t, b.String(), size, r.IntN(size+1))
	}
}

func soak(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("MILLRACE_SOAK")
	if text == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("MILLRACE_SOAK: %v", err)
	}
	return d
}

func BenchmarkSplit(b *testing.B) {
	text := strings.Repeat("# Title\n\nThe quick brown fox jumps over the lazy dog, as it always does.\nIt does so twice.\n\n```go\nfunc main() {}\n```\n\n", 2000)
	for _, strategy := range []string{Recursive, Markdown, Fixed} {
		b.Run(strategy, func(b *testing.B) {
			s, err := New(Options{Strategy: strategy, Overlap: 100})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.Split(text)
			}
		})
	}
}
