package pattern

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// differs lists the cases where the answer is another one on purpose.
var differs = map[string]string{
	"pat-0110": "a key given twice is refused, since one would silently hide the other",
	"pat-0111": "a key given twice is refused, since one would silently hide the other",
	"pat-0119": "a key given twice is refused, since one would silently hide the other",
	"pat-0358": "numbers are compared by exact value whatever their size; 12345678901234567890 > 5",
	"pat-0448": "numbers are compared by exact value whatever their size; -9007199254740993 < 0",
	"pat-0409": "text is compared as text: two spellings of one address differ",
	"pat-0413": "keys are compared whole: a dot in a key is not a step into an object",
	"pat-0464": "exists:false is judged in the element that the other conditions hold in, whatever the fields are called",
}

// notYetOps are the operators of the cases that are refused by name.
var notYetOps = []string{"equals-ignore-case", "wildcard", "cidr", "exactly"}

type testCase struct {
	ID          string
	Ops         []string
	Pattern     json.RawMessage
	PatternText *string `json:"pattern_text"`
	Event       json.RawMessage
	EventText   *string `json:"event_text"`
	Match       bool
	Invalid     bool
	Quirk       string
}

func readCases(t *testing.T) []testCase {
	t.Helper()
	b, err := os.ReadFile("testdata/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var cases []testCase
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		var c testCase
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if c.PatternText != nil {
			c.Pattern = json.RawMessage(*c.PatternText)
		}
		if c.EventText != nil {
			c.Event = json.RawMessage(*c.EventText)
		}
		cases = append(cases, c)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestCases runs the published cases as documents, and once more as the data of
// an event.
func TestCases(t *testing.T) {
	t.Parallel()
	var s Scratch
	var matched, refused, later, other int
	for _, c := range readCases(t) {
		d, err := CompileJSON(c.Pattern)
		reason := differs[c.ID]
		switch {
		case err != nil && usesLater(string(c.Pattern)):
			later++
			if !c.Invalid && !strings.Contains(err.Error(), "not supported yet") {
				t.Errorf("%s %s: refused, but not by name: %v", c.ID, c.Pattern, err)
			}
			continue
		case err != nil:
			var pe *Error
			if !errors.As(err, &pe) || pe.Msg == "" {
				t.Errorf("%s: error %v is no *Error with a message", c.ID, err)
			}
			refused++
			if !c.Invalid && reason == "" {
				t.Errorf("%s %s: %v", c.ID, c.Pattern, err)
			}
			continue
		case c.Invalid:
			t.Errorf("%s %s: compiled, want refused", c.ID, c.Pattern)
			continue
		}
		got := d.MatchJSON(c.Event, &s)
		if got != (c.Match != (reason != "")) {
			t.Errorf("%s %v\npattern %s\nevent   %s\ngot %v, want %v", c.ID, c.Ops, c.Pattern, c.Event, got, !got)
		}
		if reason != "" {
			other++
		}
		matched++

		p, err := Compile([]byte(`{"data":` + string(c.Pattern) + `}`))
		if err != nil {
			t.Errorf("%s as data: %v", c.ID, err)
			continue
		}
		ev := testEvent(string(c.Event))
		if p.Match(&ev, &s) != got || p.Match(&ev, nil) != got {
			t.Errorf("%s: as data the answer is %v", c.ID, !got)
		}
	}
	t.Logf("%d matched, %d refused, %d with operators refused by name, %d answered otherwise on purpose", matched, refused, later, other)
	if matched < 180 || refused < 25 {
		t.Errorf("only %d cases matched and %d refused: the file is not whole", matched, refused)
	}
}

func usesLater(p string) bool {
	return slices.ContainsFunc(notYetOps, func(op string) bool { return strings.Contains(p, `"`+op+`"`) })
}
