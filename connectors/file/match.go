package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkPattern reports a malformed glob.
func checkPattern(pattern string) error {
	for part := range strings.SplitSeq(pattern, string(filepath.Separator)) {
		if _, err := filepath.Match(part, ""); err != nil {
			return fmt.Errorf("%q is not a glob: a [ has no ]", pattern)
		}
	}
	return nil
}

// errNoRoot says that the directory which a pattern starts from is not there.
var errNoRoot = errors.New("no such directory")

// match lists the regular files that an absolute pattern means, sorted. The part
// before the first wildcard must exist as a directory, or be the file itself in
// a directory that exists: else it is errNoRoot.
func match(pattern string) ([]string, error) {
	parts := strings.Split(filepath.Clean(pattern), string(filepath.Separator))
	fixed := 0
	for fixed < len(parts) && !strings.ContainsAny(parts[fixed], `*?[\`) {
		fixed++
	}
	root := strings.Join(parts[:fixed], string(filepath.Separator))
	if root == "" {
		root = string(filepath.Separator)
	}
	info, err := os.Stat(root)
	if fixed == len(parts) {
		switch {
		case err == nil && info.IsDir():
			return walk(root, []string{"**", "*"})
		case err == nil:
			return []string{root}, nil
		case errors.Is(err, fs.ErrNotExist):
			if dir, derr := os.Stat(filepath.Dir(root)); derr == nil && dir.IsDir() {
				return nil, nil
			}
			return nil, fmt.Errorf("path: %s: %w", filepath.Dir(root), errNoRoot)
		}
		return nil, err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir():
		return nil, fmt.Errorf("path: %s: %w", root, errNoRoot)
	case err != nil:
		return nil, err
	}
	return walk(root, parts[fixed:])
}

// walk lists the files below dir that match the parts of a pattern.
func walk(dir string, parts []string) ([]string, error) {
	var files []string
	if err := walkInto(dir, parts, &files); err != nil {
		return nil, err
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func walkInto(dir string, parts []string, files *[]string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone while walking
		}
		return err
	}
	for _, e := range entries {
		name := e.Name()
		path := filepath.Join(dir, name)
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			info, err := os.Stat(path)
			if err != nil || info.IsDir() && parts[0] == "**" {
				continue // dangling, or a link to a directory, which ** does not follow: it may be a loop
			}
			mode = info.Mode().Type()
		}
		hidden := name[0] == '.'
		rest := parts
		if parts[0] == "**" {
			if mode.IsDir() && !hidden {
				if err := walkInto(path, parts, files); err != nil {
					return err
				}
			}
			for rest[0] == "**" && len(rest) > 1 {
				rest = rest[1:]
			}
			if rest[0] == "**" { // the pattern ends with it
				rest = []string{"*"}
			}
		}
		ok, err := filepath.Match(rest[0], name)
		if err != nil || !ok || hidden && rest[0][0] != '.' {
			continue
		}
		switch {
		case len(rest) > 1 && mode.IsDir():
			if err := walkInto(path, rest[1:], files); err != nil {
				return err
			}
		case len(rest) == 1 && mode.IsRegular():
			*files = append(*files, path)
		}
	}
	return nil
}

// matches reports whether match would list path if it existed.
func matches(pattern, path string) bool {
	pattern, path = filepath.Clean(pattern), filepath.Clean(path)
	if !strings.ContainsAny(pattern, `*?[\`) {
		return path == pattern || strings.HasPrefix(path, strings.TrimSuffix(pattern, string(filepath.Separator))+string(filepath.Separator))
	}
	return matchParts(strings.Split(pattern, string(filepath.Separator)), strings.Split(path, string(filepath.Separator)))
}

func matchParts(pattern, path []string) bool {
	for len(pattern) > 0 {
		if pattern[0] == "**" {
			if len(pattern) == 1 {
				return len(path) > 0
			}
			for i := range path {
				if matchParts(pattern[1:], path[i:]) {
					return true
				}
			}
			return false
		}
		if len(path) == 0 {
			return false
		}
		if ok, err := filepath.Match(pattern[0], path[0]); err != nil || !ok {
			return false
		}
		pattern, path = pattern[1:], path[1:]
	}
	return len(path) == 0
}
