package file_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"millrace/bus/event"
	"millrace/connectors/connectorstest"
	"millrace/connectors/file"
)

func TestSourceConformance(t *testing.T) {
	const lines = 2345 // more than two answers
	contents := map[string]string{}
	for i := range lines {
		contents["a.ndjson"] += fmt.Sprintf("{\"n\":%d}\n", i)
		contents["a.txt"] += fmt.Sprintf("line %d\r\n", i)
		contents["a.csv"] += fmt.Sprintf("%d,\"x\n\"\"%d\"\"\"\n", i, i)
	}
	contents["a.csv"] = "n,text\n" + contents["a.csv"]
	contents["a.txt"] = strings.TrimSuffix(contents["a.txt"], "\r\n")
	for name, content := range contents {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			source(t, path, lines, name != "a.txt")
		})
	}
	t.Run("many files of all kinds", func(t *testing.T) {
		dir := t.TempDir()
		n := 0
		for i := range 40 {
			for ext, content := range map[string]string{".ndjson": "1\n2\n", ".txt": "x\n", ".md": "# A document", ".csv": "a\n1\n"} {
				sub := filepath.Join(dir, fmt.Sprint("sub", i%3))
				if err := os.MkdirAll(sub, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(i, ext)), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				n += strings.Count(strings.TrimPrefix(content, "a\n"), "\n")
				if ext == ".md" {
					n++
				}
			}
		}
		source(t, filepath.Join(dir, "**", "[0-9]*.*"), n, true)
	})
}

func source(t *testing.T, path string, n int, waits bool) {
	t.Helper()
	config := map[string]any{"path": path, "topic": "t", "follow": false}
	c := connectorstest.SourceCase{Plugin: file.Plugin(), Config: config, Events: n}
	if waits {
		c.Waiting = maps.Clone(config)
		c.Waiting["follow"] = true
	}
	connectorstest.Source(t, c)
}

func TestSinkConformance(t *testing.T) {
	for _, rotate := range []string{"0", "1kB"} {
		t.Run("ndjson rotated at "+rotate, func(t *testing.T) {
			connectorstest.Sink(t, connectorstest.SinkCase{Plugin: file.Plugin(), Target: target(map[string]any{"rotate.bytes": rotate}, ".ndjson", jsonIDs)})
		})
		t.Run("csv rotated at "+rotate, func(t *testing.T) {
			connectorstest.Sink(t, connectorstest.SinkCase{
				Plugin: file.Plugin(), Target: target(map[string]any{"rotate.bytes": rotate, "format": "csv"}, ".csv", csvIDs),
				Bad: func(r *event.Record) { r.Data = []byte(`[1]`) },
			})
		})
	}
}

// target is a file in a new directory, read together with its finished parts.
func target(extra map[string]any, ext string, ids func(*testing.T, []byte) []string) func(*testing.T) (map[string]any, func(*testing.T) []string) {
	return func(t *testing.T) (map[string]any, func(*testing.T) []string) {
		t.Helper()
		base := filepath.Join(t.TempDir(), "out")
		config := map[string]any{"path": base + ext}
		maps.Copy(config, extra)
		return config, func(t *testing.T) []string {
			t.Helper()
			parts, err := filepath.Glob(base + "-*" + ext) // sorted, and so in order
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for _, path := range append(parts, base+ext) {
				content, err := os.ReadFile(path)
				if os.IsNotExist(err) {
					continue
				}
				if err != nil || len(content) > 0 && !bytes.HasSuffix(content, []byte("\n")) {
					t.Fatalf("%s: %v: the last line is torn: %q", path, err, content[max(0, len(content)-100):])
				}
				all = append(all, ids(t, content)...)
			}
			return all
		}
	}
}

func jsonIDs(t *testing.T, content []byte) []string {
	t.Helper()
	var out []string
	for line := range bytes.Lines(content) {
		e, err := event.ParseJSON(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if gjson.GetBytes(e.Data, "id").Str != e.ID {
			t.Errorf("the data of %s is another event's", line)
		}
		out = append(out, e.ID)
	}
	return out
}

func csvIDs(t *testing.T, content []byte) []string {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, row := range rows {
		switch {
		case i == 0 && strings.Join(row, ",") != "id,n,text", i > 0 && row[2] != "Zürich\n\"quoted\"":
			t.Errorf("row %d: %q", i, row)
		case i > 0:
			out = append(out, row[0])
		}
	}
	return out
}
