package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// said is what `go test -json` says of three packages, shortened: one passes and
// skips a test, one fails a test and never ends another, one does not build.
const said = `
{"Action":"start","Package":"millrace/a"}
{"Action":"output","Package":"millrace/a","Test":"TestReal","Output":"    a_test.go:9: counterpart: a real server 1.2\n"}
{"Action":"pass","Package":"millrace/a","Test":"TestReal","Elapsed":0.1}
{"Action":"output","Package":"millrace/a","Test":"TestNot","Output":"=== RUN   TestNot\n"}
{"Action":"output","Package":"millrace/a","Test":"TestNot","Output":"    a_test.go:20: the server: is not here\n"}
{"Action":"output","Package":"millrace/a","Test":"TestNot","Output":"--- SKIP: TestNot (0.00s)\n"}
{"Action":"skip","Package":"millrace/a","Test":"TestNot","Elapsed":0}
{"Action":"pass","Package":"millrace/a","Elapsed":1.5}
{"Action":"output","Package":"millrace/b","Test":"TestBad","Output":"    b_test.go:3: wrong\n"}
{"Action":"fail","Package":"millrace/b","Test":"TestBad","Elapsed":0}
{"Action":"output","Package":"millrace/b","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"millrace/b","Elapsed":2}
{"Action":"skip","Package":"millrace/none","Elapsed":0}
{"ImportPath":"millrace/c","Action":"build-output","Output":"c/c.go:1: undefined: x\n"}
{"ImportPath":"millrace/c","Action":"build-fail"}
not JSON at all
{"Action":"start","Package":"millrace/d"}
`

const shown = `ok   millrace/a                                  1.5 s
    b_test.go:3: wrong
panic: test timed out
FAIL millrace/b                                  2.0 s
c/c.go:1: undefined: x
not JSON at all

Summary
  1 tests passed, 4 failed, 1 skipped, in 3 packages (1 of them without tests)
  ran against a real server 1.2: a
  skipped: millrace/a TestNot, because the server: is not here
  missing: strace could not be installed
  FAILED: millrace/b TestBad
  FAILED: millrace/b TestHangs (did not end)
  FAILED: millrace/c (does not build)
  FAILED: millrace/d (did not end)
`

func TestSummary(t *testing.T) {
	t.Parallel()
	notes := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(notes, []byte("strace could not be installed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := newSummary(&out)
	if err := s.read(strings.NewReader(strings.TrimPrefix(said, "\n"))); err != nil {
		t.Fatal(err)
	}
	if err := s.close(notes); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(shown, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if s.fine() {
		t.Error("a run with failures is fine")
	}
	if newSummary(&out).fine() {
		t.Error("a run without tests is fine")
	}
}
