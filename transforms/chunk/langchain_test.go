package chunk

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// langchainCase is one case of testdata/langchain.json.
type langchainCase struct {
	ID       string `json:"id"`
	Splitter string `json:"splitter"`
	Kind     string `json:"kind"`
	Params   struct {
		Size          *int     `json:"chunk_size"`
		Overlap       *int     `json:"chunk_overlap"`
		Separator     *string  `json:"separator"`
		Separators    []string `json:"separators"`
		Language      string   `json:"language"`
		Regexp        bool     `json:"is_separator_regex"`
		Keep          any      `json:"keep_separator"`
		AddStartIndex bool     `json:"add_start_index"`
	} `json:"params"`
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expected"`
}

func (c *langchainCase) options() Options {
	o := Options{Size: 4000, Overlap: 200, Separators: c.Params.Separators, Regexp: c.Params.Regexp, Language: c.Params.Language}
	if c.Params.Size != nil {
		if o.Size = *c.Params.Size; o.Size == 0 {
			o.Size = -1 // here 0 is the default
		}
	}
	if c.Params.Overlap != nil {
		o.Overlap = *c.Params.Overlap
	}
	if c.Splitter == "character" {
		o.Keep = KeepNone
		o.Separators = []string{"\n\n"}
		if c.Params.Separator != nil {
			o.Separators[0] = *c.Params.Separator
		}
	}
	switch c.Params.Keep {
	case true, "start":
		o.Keep = KeepStart
	case "end":
		o.Keep = KeepEnd
	case false:
		o.Keep = KeepNone
	}
	return o
}

// TestLangChain runs LangChain's own cases. A splitter of one separator is a
// recursive one with that separator.
func TestLangChain(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/langchain.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite struct{ Cases []langchainCase }
	if err := json.Unmarshal(raw, &suite); err != nil {
		t.Fatal(err)
	}
	if len(suite.Cases) != 56 {
		t.Fatalf("%d cases, not 56", len(suite.Cases))
	}
	for _, c := range suite.Cases {
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			s, err := New(c.options())
			if c.Kind == "error" {
				if err == nil {
					t.Fatal("taken, not refused")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Kind == "create_documents" {
				c.documents(t, s)
				return
			}
			var text string
			var want []string
			unmarshal(t, c.Input, &text)
			unmarshal(t, c.Expected, &want)
			got := []string{}
			for _, ch := range s.Split(text) {
				got = append(got, ch.Text)
				if c.options().Keep != KeepNone && text[ch.Start:ch.End] != ch.Text {
					t.Errorf("%q is not what stands at %d to %d", ch.Text, ch.Start, ch.End)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("chunks of %q (-want +got)\n%s", text, diff)
			}
		})
	}
}

// documents checks a case of several texts; metadata is not the splitter's.
func (c *langchainCase) documents(t *testing.T, s *Splitter) {
	t.Helper()
	var in struct{ Texts []string }
	var want []struct {
		Content  string         `json:"page_content"`
		Metadata map[string]any `json:"metadata"`
	}
	unmarshal(t, c.Input, &in)
	unmarshal(t, c.Expected, &want)
	var got []Chunk
	for _, text := range in.Texts {
		got = append(got, s.Split(text)...)
	}
	if len(got) != len(want) {
		t.Fatalf("%d chunks, not %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i].Text != want[i].Content {
			t.Errorf("chunk %d is %q, not %q", i, got[i].Text, want[i].Content)
		}
		if at, ok := want[i].Metadata["start_index"]; ok && at != float64(got[i].Start) {
			t.Errorf("chunk %d begins at %d, not %v", i, got[i].Start, at)
		}
	}
}

func unmarshal(t *testing.T, raw json.RawMessage, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}
