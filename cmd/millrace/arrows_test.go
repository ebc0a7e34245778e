package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrows lists, for each package, which packages of ours it may import outside
// its tests. Arrows run downwards only. A "/*" stands for each package below.
var arrows = map[string][]string{
	"bus/event":          {},
	"bus/vfs":            {},
	"bus/group":          {},
	"bus/commitlog":      {"bus/vfs"},
	"bus/index":          {},
	"bus/frame":          {"bus/event", "bus/index"},
	"bus/watch":          {"bus/index"},
	"bus":                {"bus/event", "bus/vfs", "bus/group", "bus/commitlog", "bus/index", "bus/frame", "bus/watch"},
	"bus/table":          {"bus", "bus/event"},
	"bus/bustest":        {"bus", "bus/event"},
	"schemas/spec":       {},
	"rules/pattern":      {"bus/event"},
	"rules/exprs":        {"bus/event"},
	"transforms":         {"bus/event", "schemas/spec", "rules/pattern", "rules/exprs", "transforms/*"},
	"transforms/load":    {"bus/event", "transforms/chunk"},
	"transforms/chunk":   {"bus/event", "schemas/spec"},
	"transforms/embed":   {"bus/event", "schemas/spec", "connectors/guard"},
	"rules":              {"bus/event", "transforms", "rules/pattern", "rules/exprs"},
	"connectors":         {"bus/event", "schemas/spec"},
	"connectors/formats": {"bus/event"},
	"connectors/guard":   {},
	// A connector, and connectorstest.
	"connectors/*":       {"connectors", "connectors/formats", "connectors/guard", "bus/event", "schemas/spec"},
	"connectors/vectors": {"connectors", "bus/event", "schemas/spec", "transforms/chunk", "transforms/embed"},
	"connectors/builtin": {"connectors", "connectors/*"},
	"workers/loop":       {"bus", "bus/event", "transforms", "transforms/embed", "connectors"},
	"workers/letters":    {"bus", "bus/event", "workers/loop"},
	"workers/deliver":    {"bus", "bus/event", "transforms", "connectors", "workers/loop", "workers/letters"},
	"workers":            {"bus", "bus/event", "bus/table", "rules", "transforms", "connectors", "schemas/spec", "workers/*"},
	"api":                {"*"},
	"api/rest":           {"bus", "bus/event", "schemas/spec"},
	"api/desired":        {"api/rest", "bus", "bus/event", "bus/table", "rules", "transforms", "connectors", "schemas/spec", "workers", "workers/*"},
	"api/connect":        {"api/rest", "api/desired", "bus", "connectors", "schemas/spec", "workers", "workers/*"},
	"api/rpc":            {"bus", "bus/event"},
	"cmd/millrace":       {"*"},
	"cmd/millrace/demo":  {},
	"scripts/testsum":    {},

	// A real server for tests; it is in no binary.
	"connectors/mysql/mariadbtest": {},
	"connectors/mysql/cell":        {"bus/event"},
	"connectors/mysql":             {"connectors", "bus/event", "schemas/spec", "connectors/mysql/cell"},
}

// outside lists every module beyond the standard library and who may import it
// outside tests: api alone serves HTTP, api/rpc alone speaks gRPC, a driver
// belongs to its connector.
var outside = map[string][]string{
	"github.com/cespare/xxhash/v2":                    {"bus"},
	"github.com/cloudevents/sdk-go/v2":                {"cmd/millrace/demo"},
	"github.com/cockroachdb/pebble/v2":                {"bus/index"},
	"github.com/expr-lang/expr":                       {"rules/exprs"},
	"github.com/go-mysql-org/go-mysql":                {"connectors/mysql"},
	"github.com/go-sql-driver/mysql":                  {"connectors/mysql", "connectors/mysql/mariadbtest"},
	"github.com/google/go-cmp":                        {"bus/bustest"},
	"github.com/labstack/echo/v4":                     {"api"},
	"github.com/prometheus/client_golang":             {"api"},
	"github.com/schollz/progressbar/v3":               {"cmd/millrace"},
	"github.com/spf13/cobra":                          {"cmd/millrace"},
	"github.com/tidwall/gjson":                        {"cmd/millrace", "rules/exprs", "connectors/*"},
	"github.com/minio/minio-go/v7":                    {"connectors/s3"},
	"go.yaml.in/yaml/v4":                              {"cmd/millrace", "transforms/load"},
	"github.com/yuin/goldmark":                        {"transforms/load"},
	"github.com/JohannesKaufmann/html-to-markdown/v2": {"transforms/load"},
	"golang.org/x/net":                                {"transforms/load"},
	"modernc.org/sqlite":                              {"connectors/vectors"},
	"golang.org/x/sync":                               {"*"},
	"go.uber.org/goleak":                              {"connectors/connectorstest"},
	"golang.org/x/sys":                                {"bus/vfs", "connectors/file"},
	"golang.org/x/text":                               {"connectors/mysql/cell", "transforms/*"},
	"google.golang.org/grpc":                          {"api/rpc", "cmd/millrace"},
}

const (
	module        = "millrace"
	fileLines     = 400
	packageLines  = 3000
	invariants    = 11
	generatedMark = "// Code generated "
)

// source is one package as its files say.
type source struct {
	imports    map[string]string // path → a file that imports it
	documented bool
	invariants []int // cited
	lines      int
	long       []string // files over fileLines
}

func TestArrows(t *testing.T) {
	t.Parallel()
	packages := readSources(t)
	for _, pkg := range slices.Sorted(maps.Keys(packages)) {
		allowed, known := arrows[pkg]
		if !known {
			allowed, known = arrows[path.Dir(pkg)+"/*"]
		}
		if !known {
			t.Errorf("package %s is not in the table of arrows: say in cmd/millrace/arrows_test.go what it may import, and why it exists in DECISIONS.md", pkg)
		}
		for _, imported := range slices.Sorted(maps.Keys(packages[pkg].imports)) {
			file := packages[pkg].imports[imported]
			if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
				if !matches(allowed, ours) {
					t.Errorf("%s: %s may not import %s: go another way, or change the table in cmd/millrace/arrows_test.go and say why in DECISIONS.md", file, pkg, ours)
				}
				continue
			}
			if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
				continue // the standard library
			}
			who, listed := outsiders(imported)
			switch {
			case !listed:
				t.Errorf("%s: %s is a new dependency: list it in cmd/millrace/arrows_test.go and give its reason in DECISIONS.md", file, imported)
			case !matches(who, pkg):
				t.Errorf("%s: only %v may import %s: see the table in cmd/millrace/arrows_test.go", file, who, imported)
			}
		}
	}
}

// TestShape checks what keeps the code small enough to see.
func TestShape(t *testing.T) {
	t.Parallel()
	for pkg, s := range readSources(t) {
		if !s.documented {
			t.Errorf("package %s has no package comment: say in doc.go what it is for", pkg)
		}
		for _, file := range s.long {
			t.Errorf("%s, more than %d: part it", file, fileLines)
		}
		if s.lines > packageLines {
			t.Errorf("package %s has %d lines, more than %d: part it", pkg, s.lines, packageLines)
		}
	}
}

// TestArrowsExist fails on a line of the tables that stands for nothing any more.
func TestArrowsExist(t *testing.T) {
	t.Parallel()
	packages := readSources(t)
	for pkg := range arrows {
		if _, ok := packages[pkg]; !ok && !strings.HasSuffix(pkg, "/*") {
			t.Errorf("package %s is in the table of arrows but not in the tree", pkg)
		}
	}
	used := make(map[string]bool)
	for _, s := range packages {
		for imported := range s.imports {
			for mod := range outside {
				used[mod] = used[mod] || imported == mod || strings.HasPrefix(imported, mod+"/")
			}
		}
	}
	for mod := range outside {
		if !used[mod] {
			t.Errorf("%s is in the table of modules but nothing imports it", mod)
		}
	}
}

// TestInvariants checks that each invariant of ARCHITECTURE.md is cited where code
// keeps it.
func TestInvariants(t *testing.T) {
	t.Parallel()
	cited := make(map[int]bool)
	for _, s := range readSources(t) {
		for _, n := range s.invariants {
			cited[n] = true
		}
	}
	for n := 1; n <= invariants; n++ {
		if !cited[n] {
			t.Errorf("no code says that it keeps Invariant %d", n)
		}
	}
}

// matches reports whether a list of packages, "x/*" and "*" holds pkg.
func matches(list []string, pkg string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		return p == "*" || p == pkg || p == path.Dir(pkg)+"/*"
	})
}

// outsiders returns who may import a package of another module.
func outsiders(imported string) (who []string, listed bool) {
	for mod, list := range outside {
		if imported == mod || strings.HasPrefix(imported, mod+"/") {
			return list, true
		}
	}
	return nil, false
}

// readSources reads every package of the module, tests left out.
func readSources(t *testing.T) map[string]*source {
	t.Helper()
	root := filepath.Join("..", "..")
	packages := make(map[string]*source)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if file != root && (strings.HasPrefix(name, ".") || name == "testdata" || isModule(file)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		return readSource(filepath.ToSlash(rel), file, packages)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) == 0 {
		t.Fatal("no package found")
	}
	return packages
}

// isModule reports whether a folder is a module of its own.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func readSource(rel, file string, packages map[string]*source) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	pkg := path.Dir(rel)
	s := packages[pkg]
	if s == nil {
		s = &source{imports: make(map[string]string)}
		packages[pkg] = s
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		s.imports[imported] = rel
	}
	for _, m := range regexp.MustCompile(`Invariants? (\d+)(?:(?:, | and )(\d+))*`).FindAllStringSubmatch(string(text), -1) {
		for _, number := range m[1:] {
			if n, err := strconv.Atoi(number); err == nil {
				s.invariants = append(s.invariants, n)
			}
		}
	}
	s.documented = s.documented || parsed.Doc != nil && strings.TrimSpace(parsed.Doc.Text()) != ""
	if !generated(parsed) {
		n := bytes.Count(text, []byte("\n"))
		s.lines += n
		if n > fileLines {
			s.long = append(s.long, fmt.Sprintf("%s has %d lines", rel, n))
		}
	}
	return nil
}

func generated(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, generatedMark) && strings.HasSuffix(c.Text, "DO NOT EDIT.") {
				return true
			}
		}
	}
	return false
}
