// Command testsum reads what `go test -json` says, shows each package as it
// ends and the output of what failed, and closes with what ran against which
// real counterpart and what was skipped, and why.
//
// A test names its counterpart by logging a line "counterpart: NAME". The exit
// status is 1 when any test failed or none ran.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// event is one line of `go test -json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build that failed
	Test       string
	Output     string
	Elapsed    float64
}

// key is one test of one package; the package itself has no test name.
type key struct{ pkg, test string }

// summary gathers what happened.
type summary struct {
	out                     io.Writer
	broken                  error // of out
	output                  map[key][]string
	passed, failed          int
	failedNames             []string
	skipped                 map[string]string          // test → why
	counterparts            map[string]map[string]bool // counterpart → packages
	running                 map[string]bool            // packages that have started and not ended
	packages, packagesEmpty int
}

func main() {
	notes := flag.String("notes", "", "file with lines on what could not be used")
	flag.Parse()
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintf(os.Stderr, "testsum: %v\n", err)
		os.Exit(1)
	}
	if err := s.close(*notes); err != nil {
		fmt.Fprintf(os.Stderr, "testsum: %v\n", err)
		os.Exit(1)
	}
	if !s.fine() {
		os.Exit(1)
	}
}

func newSummary(out io.Writer) *summary {
	return &summary{
		out:          out,
		output:       make(map[key][]string),
		skipped:      make(map[string]string),
		running:      make(map[string]bool),
		counterparts: make(map[string]map[string]bool),
	}
}

// fine reports whether something ran and nothing failed.
func (s *summary) fine() bool { return s.failed == 0 && s.passed > 0 }

// read takes every line; one that is no JSON is shown as it is.
func (s *summary) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Action == "" {
			s.printf("%s\n", lines.Text())
			continue
		}
		s.take(e)
	}
	return lines.Err()
}

func (s *summary) take(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "start":
		s.running[e.Package] = true
	case "build-output":
		s.printf("%s", e.Output)
	case "build-fail":
		s.fail(e.ImportPath + " (does not build)")
	case "output":
		s.output[k] = append(s.output[k], e.Output)
		if _, name, ok := strings.Cut(e.Output, "counterpart: "); ok {
			name = strings.TrimSpace(name)
			if s.counterparts[name] == nil {
				s.counterparts[name] = make(map[string]bool)
			}
			s.counterparts[name][strings.TrimPrefix(e.Package, "millrace/")] = true
		}
	case "pass", "fail", "skip":
		s.end(k, e)
	}
}

// end takes the end of a test or package.
func (s *summary) end(k key, e event) {
	lines := s.output[k]
	delete(s.output, k)
	if k.test == "" {
		delete(s.running, k.pkg)
		s.packages++
		word := "ok  "
		if e.Action == "skip" { // no test files
			s.packagesEmpty++
			return
		}
		if e.Action == "fail" {
			word = "FAIL"
			s.failedPackage(k, lines)
		}
		s.printf("%s %-40s %6.1f s\n", word, k.pkg, e.Elapsed)
		return
	}
	name := k.pkg + " " + k.test
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped[name] = reason(lines)
	case "fail":
		s.fail(name)
		s.printf("%s", strings.Join(lines, ""))
	}
}

// failedPackage shows what a package said outside its tests, such as a panic.
func (s *summary) failedPackage(k key, lines []string) {
	for other, more := range s.output {
		if other.pkg == k.pkg {
			lines = append(lines, more...) // a test that never ended
			s.fail(other.pkg + " " + other.test + " (did not end)")
			delete(s.output, other)
		}
	}
	s.printf("%s", strings.Join(lines, ""))
	if !slices.ContainsFunc(s.failedNames, func(n string) bool { return strings.HasPrefix(n, k.pkg) }) {
		s.fail(k.pkg)
	}
}

func (s *summary) fail(name string) {
	s.failed++
	s.failedNames = append(s.failedNames, name)
}

// reason finds what a skipped test logged last before it ended.
func reason(lines []string) string {
	for _, l := range slices.Backward(lines) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "---") || strings.HasPrefix(l, "===") {
			continue
		}
		if _, why, ok := strings.Cut(l, ".go:"); ok {
			if _, text, ok := strings.Cut(why, ": "); ok {
				return text
			}
		}
		return l
	}
	return "no reason given"
}

// printf writes to out; the first failure is kept for the end.
func (s *summary) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.broken == nil {
		s.broken = err
	}
}

// close writes the summary. A package that never ended was cut off: it failed.
func (s *summary) close(notes string) error {
	for _, pkg := range slices.Sorted(maps.Keys(s.running)) {
		s.fail(pkg + " (did not end)")
	}
	s.printf("\nSummary\n")
	s.printf("  %d tests passed, %d failed, %d skipped, in %d packages (%d of them without tests)\n",
		s.passed, s.failed, len(s.skipped), s.packages, s.packagesEmpty)
	for _, name := range slices.Sorted(maps.Keys(s.counterparts)) {
		s.printf("  ran against %s: %s\n", name, strings.Join(slices.Sorted(maps.Keys(s.counterparts[name])), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(s.skipped)) {
		s.printf("  skipped: %s, because %s\n", name, s.skipped[name])
	}
	if notes != "" {
		b, err := os.ReadFile(notes)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(b)) {
			s.printf("  missing: %s", line)
		}
	}
	for _, name := range s.failedNames {
		s.printf("  FAILED: %s\n", name)
	}
	return s.broken
}
