package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// TestTranscripts plays testdata/transcripts: requests and the answers that are
// wanted, as its README says.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcripts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	var cover coverage
	conform := newConformance(t)
	t.Run("play", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				play(t, file, &cover, conform)
			})
		}
	})
	w := newWorld(t, Options{})
	for _, r := range w.server.Routes() {
		if !cover.has(r.Method + " " + r.Path) {
			t.Errorf("no transcript asks for %s %s: add one to testdata/transcripts", r.Method, r.Path)
		}
	}
}

func play(t *testing.T, file string, cover *coverage, conform *conformance) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	comment := string(a.Comment)
	o := Options{MaxBody: 64 << 10}
	if strings.Contains(comment, "\ntoken: ") {
		_, rest, _ := strings.Cut(comment, "\ntoken: ")
		o.Token, _, _ = strings.Cut(rest, "\n")
	}
	w := newWorld(t, o)
	defer func() { cover.add(t, w.server) }()
	if strings.Contains(comment, "\nwith a worker\n") {
		w.work()
	}
	if len(a.Files)%2 != 0 {
		t.Fatalf("%s: requests and answers do not pair", file)
	}
	vars := map[string]string{}
	for i := 0; i < len(a.Files); i += 2 {
		step := fmt.Sprintf("%s: request %d, %s", filepath.Base(file), i/2+1, a.Files[i].Name)
		rec := w.exchange(step, a.Files[i], a.Files[i+1], vars, w.worker == nil)
		method, target, _ := strings.Cut(strings.TrimSuffix(a.Files[i].Name, " soon"), " ")
		if d := conform.check(method, target, rec); d != "" {
			t.Fatalf("%s: the answer is not as openapi.yaml says: %s\n%s", step, d, rec.Body)
		}
	}
}

// exchange plays one request. An answer of 4xx or 5xx must leave everything as it
// was; "soon" repeats the request until the answer is right.
func (w *world) exchange(step string, ask, want txtar.File, vars map[string]string, still bool) (rec *httptest.ResponseRecorder) {
	w.t.Helper()
	line, soon := strings.CutSuffix(ask.Name, " soon")
	method, target, ok := strings.Cut(line, " ")
	if !ok {
		w.t.Fatalf("%s: a request is a method and a path", step)
	}
	header, body := splitSection(w.t, step, expand(string(ask.Data), vars))
	status, err := strconv.Atoi(want.Name)
	if err != nil {
		w.t.Fatalf("%s: the answer's name is a status, not %q", step, want.Name)
	}
	before := ""
	if status >= 400 && still {
		before = w.fingerprint()
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		rec = w.do(method, expand(target, vars), header, body)
		diff := compare(rec, status, expand(string(want.Data), vars), vars)
		if diff == "" {
			break
		}
		if !soon || time.Now().After(deadline) {
			w.t.Fatalf("%s: %s\nthe answer was %d %v\n%s", step, diff, rec.Code, rec.Header(), rec.Body)
		}
		select {
		case <-w.t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	if before != "" {
		if after := w.fingerprint(); after != before {
			w.t.Fatalf("%s: a refused request changed something:\nbefore\n%s\nafter\n%s", step, before, after)
		}
	}
	return rec
}

// splitSection parts headers, which end with an empty line, from a body. What
// begins with a bracket has no headers.
func splitSection(tb testing.TB, step, text string) (http.Header, string) {
	tb.Helper()
	if text == "" || text[0] == '{' || text[0] == '[' {
		return http.Header{}, strings.TrimSuffix(text, "\n")
	}
	r := bufio.NewReader(strings.NewReader(text + "\n"))
	h, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil {
		tb.Fatalf("%s: headers: %v", step, err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(r); err != nil {
		tb.Fatal(err)
	}
	return http.Header(h), strings.TrimRight(b.String(), "\n")
}

var repeat = regexp.MustCompile(`\$REPEAT\((\d+)\)`)

// expand puts the values of variables in, and n letters for $REPEAT(n).
func expand(text string, vars map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		text = strings.ReplaceAll(text, name, vars[name])
	}
	return repeat.ReplaceAllStringFunc(text, func(m string) string {
		n, _ := strconv.Atoi(repeat.FindStringSubmatch(m)[1])
		return strings.Repeat("x", n)
	})
}

func compare(rec *httptest.ResponseRecorder, status int, want string, vars map[string]string) string {
	if rec.Code != status {
		return fmt.Sprintf("status %d is wanted", status)
	}
	body := want
	if want != "" && want[0] != '{' && want[0] != '[' {
		head, rest, _ := strings.Cut(want, "\n\n")
		if strings.Contains(head, ": ") && !strings.HasPrefix(head, "~") {
			for line := range strings.SplitSeq(strings.TrimSuffix(head, "\n"), "\n") {
				name, value, _ := strings.Cut(line, ": ")
				if got := rec.Header().Get(name); !glob(value, got) {
					return fmt.Sprintf("header %s is %q, wanted %q", name, got, value)
				}
			}
			body = rest
		}
	}
	got := rec.Body.String()
	body = strings.TrimSpace(body)
	if strings.HasPrefix(body, "~") { // text that must be in it, a line each
		for line := range strings.SplitSeq(body, "\n") {
			if part := strings.TrimPrefix(line, "~"); !strings.Contains(got, part) {
				return fmt.Sprintf("%q is not in the body", part)
			}
		}
		return ""
	}
	if body == "" {
		if got != "" {
			return "no body is wanted"
		}
		return ""
	}
	return compareJSON(body, got, vars)
}

func compareJSON(want, got string, vars map[string]string) string {
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		return fmt.Sprintf("the wanted body is not JSON: %v", err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return fmt.Sprintf("the body is not JSON: %v", err)
	}
	return match("", w, g, vars)
}

// match compares a wanted JSON value with one that came. A string is a glob, in
// which "*" stands for anything and which any value may match by its JSON; "$X="
// keeps the value as a variable. An object with the key "..." may have further
// keys, an array that ends in "..." further items.
func match(path string, want, got any, vars map[string]string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return path + " is no object"
		}
		_, more := w["..."]
		for k := range g {
			if _, ok := w[k]; !ok && !more {
				return path + "." + k + " is not wanted"
			}
		}
		for _, k := range slices.Sorted(maps.Keys(w)) {
			if k == "..." {
				continue
			}
			v, ok := g[k]
			if !ok {
				return path + "." + k + " is missing"
			}
			if d := match(path+"."+k, w[k], v, vars); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok {
			return path + " is no array"
		}
		if n := len(w); n > 0 && w[n-1] == "..." {
			w = w[:n-1]
			g = g[:min(len(g), len(w))]
		}
		if len(w) != len(g) {
			return fmt.Sprintf("%s has %d items, %d are wanted", path, len(g), len(w))
		}
		for i := range w {
			if d := match(fmt.Sprintf("%s[%d]", path, i), w[i], g[i], vars); d != "" {
				return d
			}
		}
		return ""
	case string:
		text, ok := got.(string)
		if !ok {
			b, _ := json.Marshal(got) // it was JSON
			text = string(b)
			if w != "*" && !strings.HasPrefix(w, "$") {
				return fmt.Sprintf("%s is %s, wanted %q", path, text, w)
			}
		}
		if name, keep := strings.CutSuffix(w, "="); keep && strings.HasPrefix(name, "$") {
			vars[name] = text
			return ""
		}
		if !glob(w, text) {
			return fmt.Sprintf("%s is %q, wanted %q", path, text, w)
		}
		return ""
	default:
		if !jsonEqual(want, got) {
			return fmt.Sprintf("%s is %v, wanted %v", path, got, want)
		}
		return ""
	}
}

func jsonEqual(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// glob matches text against a pattern in which "*" stands for anything.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, last)
}
