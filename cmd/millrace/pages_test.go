package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPages checks that what the pages point at is there: files and folders in
// backticks or links, make targets, and verbs of the command.
func TestPages(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages := []string{"README.md", "ARCHITECTURE.md", "DECISIONS.md", "CONTRIBUTING.md", "docs/operations.md", "bench/README.md"}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile("`((?:api|bus|cmd|connectors|deploy|docs|rules|schemas|scripts|tools|transforms|workers)/[\\w./-]*)`")
	link := regexp.MustCompile(`\]\(([\w./-]+)\)`)
	target := regexp.MustCompile("(?:`|^ *)make ([a-z-]+)")
	verb := regexp.MustCompile(`(?m)(?:^ *|` + "`" + `|bin/)millrace ([a-z]+)`)
	for _, page := range pages {
		b, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Error(err)
			continue
		}
		text := string(b)
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s names make %s, which is not there", page, m[1])
			}
		}
		for _, m := range verb.FindAllStringSubmatch(text, -1) {
			cmd, _, err := newRoot().Find([]string{m[1]})
			if err != nil || cmd.Name() != m[1] {
				t.Errorf("%s names millrace %s, which is not there", page, m[1])
			}
		}
	}
}

// TestDecisions checks that every module that go.mod asks for has its reason.
func TestDecisions(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile(filepath.Join("..", "..", "DECISIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllSubmatch(mod, -1)
	if len(direct) == 0 {
		t.Fatal("go.mod asks for nothing")
	}
	for _, m := range direct {
		name := strings.TrimPrefix(string(m[1]), "github.com/")
		if !strings.Contains(string(reasons), name) {
			t.Errorf("%s is in go.mod and has no reason in DECISIONS.md", name)
		}
	}
}
