package load

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
	uni "golang.org/x/text/encoding/unicode"
)

func TestLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   Input
		o    Options
		want Document
	}{
		"text": {
			Input{Name: "a/my_notes.txt", MediaType: "text/plain", Data: []byte("x")},
			Options{},
			Document{Text: "x", Title: "my notes", Format: Text, MediaType: "text/plain"},
		},
		"markdown by name": {
			Input{Name: "a.md", MediaType: "text/plain; charset=utf-8", Data: []byte("para\n\nSetext *title*\n===\n")},
			Options{},
			Document{Text: "para\n\nSetext *title*\n===\n", Title: "Setext title", Format: Markdown, MediaType: "text/plain"},
		},
		"front matter": {
			Input{MediaType: "text/markdown", Data: []byte("---\ntitle: The title\nn: 1.5\nd: 2026-01-31T10:00:00Z\nl: [1, {a: b}]\n---\n# Other\n")},
			Options{},
			Document{
				Text: "# Other\n", Title: "The title", Format: Markdown, MediaType: "text/markdown",
				Metadata: map[string]any{"title": "The title", "n": 1.5, "d": "2026-01-31T10:00:00Z", "l": []any{1, map[string]any{"a": "b"}}},
			},
		},
		"no front matter": {
			Input{MediaType: "text/markdown", Data: []byte("---\n\n# T\n")},
			Options{},
			Document{Text: "---\n\n# T\n", Title: "T", Format: Markdown, MediaType: "text/markdown"},
		},
		"page": {
			Input{Name: "x.bin", Data: []byte(`<!DOCTYPE html><html lang="en"><head><title> A
 page </title><meta name="description" content="about"><style>p{}</style></head><body><header>site</header><nav>menu</nav>
<article><header><h1>Head</h1></header><p>Text <a href="/x">link</a>.</p><pre><code class="language-go">x := 1</code></pre><table><tr><th>a</th></tr><tr><td>1</td></tr></table></article>
<div hidden>secret</div><script>alert(1)</script><footer>imprint</footer></body></html>`)},
			Options{},
			Document{
				Text: "# Head\n\nText [link](/x).\n\n```go\nx := 1\n```\n\n| a |\n|---|\n| 1 |", Title: "A page", Format: HTML, MediaType: "text/html",
				Metadata: map[string]any{"language": "en", "description": "about"},
			},
		},
		"articles": {
			Input{MediaType: "text/html", Data: []byte(`<article><h1>One</h1></article><article><p>Two</p></article><p hidden>no</p>`)},
			Options{},
			Document{Text: "# One\n\nTwo", Title: "One", Format: HTML, MediaType: "text/html"},
		},
		"CSV": {
			Input{Name: "a.csv", MediaType: "text/csv", Data: []byte("name;city;\nAda;\"Lon\ndon\";\n;;\nBo;;;extra\n")},
			Options{},
			Document{Text: "name: Ada\ncity: Lon don\n\nname: Bo\ncolumn 4: extra\n", Title: "a", Format: CSV, MediaType: "text/csv"},
		},
		"TSV": {
			Input{Name: "a.tsv", Data: []byte("a\tb\n1,5\t2\n")},
			Options{},
			Document{Text: "a: 1,5\nb: 2\n", Title: "a", Format: CSV, MediaType: "text/csv"},
		},
		"JSON": {
			Input{MediaType: "application/json", Data: []byte(`[{"name":"N","tags":["x","y"],"deep":{"list":[{"k":1.50}]},"no":null},{"b":true}]`)},
			Options{},
			Document{Text: "deep.list[0].k: 1.50\nname: N\ntags: x, y\n\nb: true\n", Format: JSON, MediaType: "application/json"},
		},
		"JSON lines": {
			Input{Name: "x.json", Data: []byte("{\"a\":1}\n{\"a\":2}\n")},
			Options{},
			Document{Text: "a: 1\n\na: 2\n", Title: "x", Format: JSON, MediaType: "application/json"},
		},
		"JSON field": {
			Input{MediaType: "application/json", Data: []byte(`{"t":"T","body":{"list":["", "the text"]}}`)},
			Options{TextField: "body.list.1", Title: "t"},
			Document{Text: "the text", Title: "T", Format: JSON, MediaType: "application/json"},
		},
		"format named": {
			Input{MediaType: "application/json", Data: []byte("# T")},
			Options{Format: Markdown},
			Document{Text: "# T", Title: "T", Format: Markdown, MediaType: "application/json"},
		},
		"nothing": {Input{Name: "e.json", Data: []byte{}}, Options{}, Document{Title: "e", Format: JSON, MediaType: "application/json"}},
		"YAML":    {Input{Name: "x.yaml", MediaType: "application/yaml", Data: []byte("a: 1")}, Options{}, Document{Text: "a: 1", Title: "x", Format: Text, MediaType: "application/yaml"}},
	} {
		got, err := Load(c.in, c.o)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	chinese, german := "数据库的备份很简单，只要复制文件。", "Größe und Länge überprüfen – „gut“"
	for name, c := range map[string]struct {
		data      []byte
		mediaType string
		want      string
	}{
		"UTF-8 BOM":    {[]byte("\xef\xbb\xbfä"), "text/plain", "ä"},
		"UTF-16 LE":    {must(uni.UTF16(uni.LittleEndian, uni.UseBOM).NewEncoder().Bytes([]byte(chinese))), "text/plain", chinese},
		"UTF-16 BE":    {must(uni.UTF16(uni.BigEndian, uni.UseBOM).NewEncoder().Bytes([]byte(german))), "text/plain", german},
		"GBK, guessed": {must(simplifiedchinese.GBK.NewEncoder().Bytes([]byte(chinese))), "text/plain", chinese},
		"GBK, said":    {must(simplifiedchinese.GBK.NewEncoder().Bytes([]byte(chinese))), "text/plain; charset=gb2312", chinese},
		"1252":         {must(charmap.Windows1252.NewEncoder().Bytes([]byte(german))), "text/plain", german},
		"Shift JIS":    {must(japanese.ShiftJIS.NewEncoder().Bytes([]byte("バックアップ"))), "text/plain; charset=shift_jis", "バックアップ"},
		"a page's":     {must(japanese.EUCJP.NewEncoder().Bytes([]byte(`<meta charset="euc-jp"><p>バックアップ</p>`))), "text/html", "バックアップ"},
	} {
		if d, err := Load(Input{MediaType: c.mediaType, Data: c.data}, Options{}); err != nil || d.Text != c.want {
			t.Errorf("%s: %q %v", name, d.Text, err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + "x" + strings.Repeat(end, n) }
	wide := strings.Repeat("a very long header indeed,", 2000) + "\n" + strings.Repeat("1,", 2000) + "\n"
	for name, c := range map[string]struct {
		in   Input
		want error
	}{
		"large":             {Input{Data: make([]byte, 2<<20)}, ErrTooLarge},
		"CSV that grows":    {Input{MediaType: "text/csv", Data: []byte(wide + strings.Repeat(strings.Repeat("1,", 2000)+"\n", 100))}, ErrTooLarge},
		"JSON that grows":   {Input{MediaType: "application/json", Data: []byte(`{"` + strings.Repeat("k", 10000) + `":[` + strings.Repeat(`{"a":1},`, 1000) + `1]}`)}, ErrTooLarge},
		"PDF":               {Input{Name: "x.txt", Data: []byte("%PDF-1.7")}, ErrUnsupported},
		"zip":               {Input{Data: []byte("PK\x03\x04")}, ErrUnsupported},
		"picture":           {Input{MediaType: "image/svg", Data: []byte("x")}, ErrUnsupported},
		"zero bytes":        {Input{MediaType: "text/plain", Data: []byte("a\x00b")}, ErrEncoding},
		"unknown charset":   {Input{MediaType: "text/plain; charset=klingon", Data: []byte("a")}, ErrEncoding},
		"not its charset":   {Input{MediaType: "text/plain; charset=gbk", Data: []byte("a\xff\xff\xffb")}, ErrEncoding},
		"JSON cut off":      {Input{MediaType: "application/json", Data: []byte(`{"a":`)}, ErrMalformed},
		"JSON too deep":     {Input{MediaType: "application/json", Data: []byte(deep(`{"a":`, "}", 200))}, ErrMalformed},
		"page too deep":     {Input{MediaType: "text/html", Data: []byte(deep("<div>", "</div>", 400))}, ErrMalformed},
		"lists too deep":    {Input{MediaType: "text/html", Data: []byte(deep("<ul><li>", "", 13))}, ErrMalformed},
		"tags":              {Input{MediaType: "text/html", Data: []byte(strings.Repeat("<", 600_000))}, ErrTooLarge},
		"front matter":      {Input{MediaType: "text/markdown", Data: []byte("---\na: [\n---\n")}, ErrMalformed},
		"front matter bomb": {Input{MediaType: "text/markdown", Data: []byte(bomb())}, ErrMalformed},
		"front matter long": {Input{MediaType: "text/markdown", Data: []byte("---\na: " + strings.Repeat("x", 70000) + "\n---\n")}, ErrTooLarge},
	} {
		begin := time.Now()
		d, err := Load(c.in, Options{MaxBytes: 1 << 20})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v %d bytes, not %v", name, err, len(d.Text), c.want)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
	if _, err := Load(Input{MediaType: "application/json", Data: []byte(`{"a":1}`)}, Options{TextField: "a"}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a number for the text: %v", err)
	}
}

// bomb is YAML whose aliases make ten times as much in each line.
func bomb() string {
	var b strings.Builder
	b.WriteString("---\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return b.String() + "---\n"
}

func FuzzLoad(f *testing.F) {
	f.Add("a.md", "", []byte("---\na: b\n---\n# T\n\ntext"))
	f.Add("a.html", "text/html", []byte("<title>x</title><main><p>a<table><tr><td>1</table></main>"))
	f.Add("a.csv", "text/csv", []byte("a,b\n1,\"2\n"))
	f.Add("a.json", "application/json", []byte(`{"a":[1,{"b":null}],"title":"T"}`))
	f.Add("x", "text/plain; charset=gbk", []byte("\xca\xfd\xbe\xdd"))
	f.Fuzz(func(t *testing.T, name, mediaType string, content []byte) {
		for _, format := range []string{Auto, Text, Markdown, HTML, JSON, CSV} {
			d, err := Load(Input{Name: name, MediaType: mediaType, Data: content}, Options{Format: format, MaxBytes: 1 << 16})
			if err != nil {
				if !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrEncoding) && !errors.Is(err, ErrMalformed) {
					t.Fatalf("%s: %v", format, err)
				}
				continue
			}
			if !utf8.ValidString(d.Text) {
				t.Fatalf("%s: %q is no UTF-8", format, d.Text)
			}
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	md := []byte("---\ntags: [a]\n---\n# Title\n\n" + strings.Repeat("Some text that *is* here and `code` too.\n\n", 500))
	page := []byte("<html><title>x</title><body><main>" + strings.Repeat("<p>Some text that <em>is</em> here.</p>", 500) + "</main></body></html>")
	for name, in := range map[string]Input{"markdown": {Name: "a.md", Data: md}, "html": {Name: "a.html", Data: page}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in.Data)))
			for b.Loop() {
				if _, err := Load(in, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
