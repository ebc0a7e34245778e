package commitlog_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a log that the test's end closes.
func open(t *testing.T, o commitlog.Options) *commitlog.Log {
	t.Helper()
	l, err := commitlog.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// add appends a frame and syncs it.
func add(t *testing.T, l *commitlog.Log, kind byte, payload string) commitlog.Position {
	t.Helper()
	pos, err := l.Append(kind, []byte(payload))
	if err == nil {
		err = l.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

// payloads returns what a scan yields.
func payloads(t *testing.T, l *commitlog.Log, from commitlog.Position) []string {
	t.Helper()
	var out []string
	for f, err := range l.Scan(from) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(f.Payload))
	}
	return out
}

// readFile returns a file's bytes.
func readFile(t *testing.T, m vfs.FS, name string) []byte {
	t.Helper()
	f, err := m.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

// writeFile makes a file hold b, durably, whatever it held.
func writeFile(t *testing.T, m vfs.FS, name string, b []byte) {
	t.Helper()
	err := m.MkdirAll(filepath.Dir(name))
	if err == nil {
		if err = m.Remove(name); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b, 0)
	if err := errors.Join(err, f.Sync(), f.Close(), m.SyncDir(filepath.Dir(name))); err != nil {
		t.Fatal(err)
	}
}

func segment(base string) string { return filepath.Join(dir, base+".seg") }

const firstSegment = "00000000000000000000"

// copyDir returns a file system with the files of a log's directory.
func copyDir(t *testing.T, from vfs.FS) *vfs.Mem {
	t.Helper()
	to := &vfs.Mem{}
	infos, err := from.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		name := filepath.Join(dir, info.Name)
		writeFile(t, to, name, readFile(t, from, name))
	}
	return to
}

// wantCorrupt checks that an error tells of corruption in that place.
func wantCorrupt(t *testing.T, err error, file string, offset int64) {
	t.Helper()
	c, ok := errors.AsType[*commitlog.CorruptError](err)
	if !ok || c.File != file || c.Offset != offset {
		t.Fatalf("got error %v, want corruption of %s at %d", err, file, offset)
	}
}
