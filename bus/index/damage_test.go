package index

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// A damaged file ends no process: reads that need it fail, and the next Open
// begins with an empty store.
func TestDamaged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "views")
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b[5] ^= 0x55
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.db.Get([]byte("key3")); !pebble.IsCorruptionError(err) {
		t.Fatalf("a read of what is damaged: %v", err)
	}
	if err := s.Abandon(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.db.Get([]byte("key3")); !errors.Is(err, pebble.ErrNotFound) {
		t.Fatalf("after opening it again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
