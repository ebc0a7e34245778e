package transforms

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

const docsFile = "../docs/transforms.md"

const docsHead = `# Transform steps

<!-- Made from the code by transforms/docs_test.go; MILLRACE_UPDATE=1 go test ./transforms writes it. -->

A rule's ` + "`transforms`" + ` is a list of steps, each an object with the step's name as its key. They run in order, on every event
that the rule matches, before it goes to the target:

` + "```yaml" + `
transforms:
  - set: {data.size: "'big'"}
    if: data.amount > 1000
  - remove: [data.card]
` + "```" + `

**Paths** are dotted from the event. ` + "`type`, `source`, `subject`, `time`, `partitionkey`, `dataschema`, `datacontenttype`" + ` and
` + "`id`" + ` are the attributes; any other single name, or ` + "`ext.name`" + `, is an extension; ` + "`data`" + ` is the payload and
` + "`data.items[0].sku`" + ` a place in it. ` + "`[*]`" + ` is every element of a list, in remove, keep and cast. A dot, bracket or backslash
that belongs to a key has a backslash before it: ` + "`data.a\\.b`" + `.

**Values** keep their text: a number is never rounded, the order of keys and the white space stay, and what a step does not
name is not touched. Of several members with one key the last one counts.

**Conditions.** Every step may carry ` + "`if`" + `: an event pattern (an object), or an expression (text). Events for which it does
not hold pass the step unchanged. A condition that fails on an event counts as false.

**Tombstones**, events without data that say a key is gone, pass all steps that work on data unchanged. Data that is not
JSON fails those steps, except where one says otherwise.

**Identity.** An event keeps its id through all steps; only split and chunk make new ones, by adding ` + "`/0`, `/1`" + ` and so on.

**Failure.** An event that fails in a step goes no further, and what the rule's ` + "`onError`" + ` says happens to it; all others
go on.

`

// docs is the page about all steps.
func docs() string {
	var b strings.Builder
	b.WriteString(docsHead)
	b.WriteString("| Step | What it does |\n| --- | --- |\n")
	for _, k := range List() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", k.Name, strings.ToLower(k.Name), k.Summary)
	}
	for _, k := range List() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%s\n\n```yaml\n- %s\n```\n\n%s", k.Name, k.Summary, k.Docs,
			strings.ReplaceAll(k.Example, "\n", "\n  "), k.Spec.Markdown())
	}
	return b.String()
}

// TestDocs fails when the page is stale; MILLRACE_UPDATE=1 writes it.
func TestDocs(t *testing.T) {
	t.Parallel()
	want := docs()
	if os.Getenv("MILLRACE_UPDATE") != "" {
		if err := os.WriteFile(docsFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is stale: run MILLRACE_UPDATE=1 go test ./transforms (-want +got)\n%s", docsFile, diff)
	}
}

// TestExamples compiles what the page shows.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, k := range List() {
		var v any
		if err := yaml.Unmarshal([]byte(k.Example), &v); err != nil {
			t.Fatalf("%s: %v", k.Name, err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compile([]json.RawMessage{raw}, Env{}); err != nil {
			t.Errorf("%s: %v", k.Example, err)
		}
	}
}
