package transforms

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"millrace/bus/event"
)

// TestGolden runs testdata/*.txtar. Each file holds cases, three sections each:
//
//	-- name/steps --   the chain: a JSON array
//	-- name/in --      events, one a line; specversion, source ("/test"), type ("test")
//	                   and id (its line number) may be left out
//	-- name/out --     what comes out: "line: event" for each result, "line: dropped"
//	                   or "line: error: …"; for a chain that is refused, "refused: …"
//
// MILLRACE_UPDATE=1 writes the out sections; read the diff before committing it.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			steps, in := "", ""
			for i := range archive.Files {
				f := &archive.Files[i]
				name, section := filepath.Split(f.Name)
				switch section {
				case "steps":
					steps, in = string(f.Data), ""
				case "in":
					in = string(f.Data)
				case "out":
					got := runCase(t, steps, in)
					if os.Getenv("MILLRACE_UPDATE") != "" {
						f.Data = []byte(got)
					}
					if diff := cmp.Diff(string(f.Data), got); diff != "" {
						t.Errorf("%s (-want +got)\n%s", name, diff)
					}
				default:
					t.Fatalf("section %s is none of steps, in and out", f.Name)
				}
			}
			if os.Getenv("MILLRACE_UPDATE") != "" {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// testEnv has a clock that stands still.
func testEnv() Env {
	return Env{Now: func() time.Time { return time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC) }}
}

func raws(steps ...string) []json.RawMessage {
	out := make([]json.RawMessage, len(steps))
	for i, s := range steps {
		out[i] = json.RawMessage(s)
	}
	return out
}

func compileJSON(t *testing.T, steps string) (*Chain, error) {
	t.Helper()
	var raws []json.RawMessage
	if err := json.Unmarshal([]byte(steps), &raws); err != nil {
		t.Fatalf("%v: %s", err, steps)
	}
	return Compile(raws, testEnv())
}

func mustCompile(t *testing.T, steps string) *Chain {
	t.Helper()
	c, err := compileJSON(t, steps)
	if err != nil {
		t.Fatalf("%s: %v", steps, err)
	}
	return c
}

const head = `{"specversion":"1.0",`

func runCase(t *testing.T, steps, in string) string {
	t.Helper()
	c, err := compileJSON(t, steps)
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	var events []event.Event
	for line := range strings.Lines(in) {
		line = strings.TrimSpace(line)
		given := members([]byte(line))
		for _, d := range [][2]string{{"type", "test"}, {"source", "/test"}, {"id", strconv.Itoa(len(events) + 1)}, {"specversion", "1.0"}} {
			if _, ok := given[d[0]]; !ok {
				line = fmt.Sprintf(`{"%s":"%s",%s`, d[0], d[1], line[1:])
			}
		}
		e, err := event.ParseJSON([]byte(line))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		events = append(events, e)
	}
	before := fmt.Sprintf("%+v", events)
	results, err := c.Apply(context.Background(), events)
	if err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprintf("%+v", events); after != before {
		t.Errorf("the input was changed:\n%s\n%s", before, after)
	}
	var out strings.Builder
	for i, next := 0, 0; i < len(events); i++ {
		if next == len(results) || results[next].Parent != i {
			fmt.Fprintf(&out, "%d: dropped\n", i+1)
			continue
		}
		for ; next < len(results) && results[next].Parent == i; next++ {
			if err := results[next].Err; err != nil {
				fmt.Fprintf(&out, "%d: error: %v\n", i+1, err)
				continue
			}
			text := string(event.AppendJSON(nil, &results[next].Event))
			if err := event.CheckJSON([]byte(text)); err != nil {
				t.Errorf("%v: %s", err, text)
			}
			text = strings.Replace(text, head, "{", 1)
			text = strings.Replace(text, `,"source":"/test"`, "", 1)
			text = strings.Replace(text, `,"type":"test"`, "", 1)
			fmt.Fprintf(&out, "%d: %s\n", i+1, text)
		}
	}
	return out.String()
}
