package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"millrace/bus/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func create(t *testing.T, f vfs.FS, name, content string) vfs.File {
	t.Helper()
	file, err := f.Create(name)
	must(t, err)
	_, err = file.WriteAt([]byte(content), 0)
	must(t, err)
	return file
}

func read(t *testing.T, f vfs.FS, name string) string {
	t.Helper()
	file, err := f.Open(name)
	must(t, err)
	b := content(t, file)
	must(t, file.Close())
	return b
}

func content(t *testing.T, file vfs.File) string {
	t.Helper()
	size, err := file.Size()
	must(t, err)
	b := make([]byte, size)
	_, err = file.ReadAt(b, 0)
	if size > 0 {
		must(t, err)
	}
	return string(b)
}

func names(t *testing.T, f vfs.FS, dir string) (names []string) {
	t.Helper()
	infos, err := f.List(dir)
	must(t, err)
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

// TestFS is what every FS must do.
func TestFS(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]vfs.FS{
		"os": vfs.OS{}, "mem": &vfs.Mem{}, "fault": &vfs.Fault{FS: &vfs.Mem{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "a", "b")
			testNames(t, f, dir)
			testContents(t, f, dir)
			testLock(t, f, dir)
		})
	}
}

func testNames(t *testing.T, f vfs.FS, dir string) {
	t.Helper()
	_, err := f.List(dir)
	is(t, err, fs.ErrNotExist)
	_, err = f.Create(filepath.Join(dir, "x"))
	is(t, err, fs.ErrNotExist)
	is(t, f.SyncDir(dir), fs.ErrNotExist)
	must(t, f.MkdirAll(dir))
	must(t, f.MkdirAll(dir))
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, create(t, f, at("b"), "bee").Close())
	must(t, create(t, f, at("a"), "ay").Close())
	_, err = f.Create(at("a"))
	is(t, err, fs.ErrExist)
	_, err = f.Open(at("c"))
	is(t, err, fs.ErrNotExist)
	is(t, f.Remove(at("c")), fs.ErrNotExist)
	is(t, f.Rename(at("c"), at("d")), fs.ErrNotExist)
	is(t, f.Rename(at("a"), filepath.Join(dir, "..", "a")), errors.ErrUnsupported)
	if f.MkdirAll(at("a")) == nil || f.MkdirAll(filepath.Join(at("a"), "sub")) == nil {
		t.Fatal("a file became a directory")
	}
	infos, err := f.List(dir)
	must(t, err)
	if len(infos) != 2 || infos[0].Name != "a" || infos[0].Size != 2 || infos[1].Name != "b" || infos[1].Modified.IsZero() {
		t.Fatalf("%+v", infos)
	}
	must(t, f.Rename(at("a"), at("b"))) // replaces it
	must(t, f.SyncDir(dir))
	if got := names(t, f, dir); len(got) != 1 || got[0] != "b" || read(t, f, at("b")) != "ay" {
		t.Fatal(got)
	}
	open, err := f.Open(at("b"))
	must(t, err)
	must(t, f.Remove(at("b")))
	if got := content(t, open); got != "ay" {
		t.Fatalf("removed, open: %q", got)
	}
	must(t, open.Close())
	if got := names(t, f, dir); len(got) != 0 {
		t.Fatal(got)
	}
}

func testContents(t *testing.T, f vfs.FS, dir string) {
	t.Helper()
	name := filepath.Join(dir, "contents")
	file := create(t, f, name, "0123456789")
	_, err := file.WriteAt([]byte("end"), 10_000)
	must(t, err)
	must(t, file.Sync())
	if got, want := content(t, file), "0123456789"+string(make([]byte, 9990))+"end"; got != want {
		t.Fatalf("%d bytes", len(got))
	}
	b := make([]byte, 10)
	if n, err := file.ReadAt(b, 9998); n != 5 || !errors.Is(err, io.EOF) || !bytes.Equal(b[:5], []byte("\x00\x00end")) {
		t.Fatalf("over the end: %d %v %q", n, err, b)
	}
	if n, err := file.ReadAt(b, 20_000); n != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("behind the end: %d %v", n, err)
	}
	must(t, file.Truncate(4))
	must(t, file.Truncate(8))
	if got := content(t, file); got != "0123\x00\x00\x00\x00" {
		t.Fatalf("truncated: %q", got)
	}
	must(t, file.Close())
	_, err = file.ReadAt(b, 0)
	_, writeErr := file.WriteAt(b, 0)
	_, sizeErr := file.Size()
	for _, err := range []error{err, writeErr, sizeErr, file.Sync(), file.Truncate(0), file.Close()} {
		is(t, err, fs.ErrClosed)
	}
	must(t, f.Remove(name))
}

func testLock(t *testing.T, f vfs.FS, dir string) {
	t.Helper()
	lock, err := f.Lock(dir)
	must(t, err)
	_, err = f.Lock(dir)
	is(t, err, vfs.ErrLocked)
	must(t, lock.Close())
	if lock.Close() == nil {
		t.Fatal("closed twice")
	}
	lock, err = f.Lock(dir)
	must(t, err)
	must(t, lock.Close())
	_, err = f.Lock(filepath.Join(dir, "none"))
	is(t, err, fs.ErrNotExist)
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	m := &vfs.Mem{}
	f := &vfs.Fault{FS: m, After: func(op vfs.Op) {
		if op.Kind == vfs.OpSync {
			m.Crash(newRNG(1, 2))
		}
	}}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := filepath.Join("/", string(rune('a'+i)))
			for range 50 {
				file, err := f.Create(name)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = file.WriteAt([]byte("text"), 5000)
				if err := errors.Join(err, file.Sync(), file.Close(), f.Remove(name), f.SyncDir("/")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if f.Ops() != 8*50*6 || m.OpenFiles() != 0 {
		t.Errorf("%d operations, %d files open", f.Ops(), m.OpenFiles())
	}
}
