package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// OS is the operating system's file system. Sync is fdatasync on Linux, fsync
// elsewhere.
type OS struct{}

var _ FS = OS{}

// MkdirAll makes a directory and the missing ones above it, durably.
func (o OS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	if parent == dir {
		return nil
	}
	err := os.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o755)
	case errors.Is(err, fs.ErrExist):
		info, statErr := os.Stat(dir)
		if statErr != nil {
			return statErr
		}
		if info.IsDir() {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return o.SyncDir(parent)
}

// Create makes a new, empty file.
func (OS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// Open opens an existing file.
func (OS) Open(name string) (File, error) { return open(name, os.O_RDWR) }

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

// Rename gives a file another name in the same directory.
func (OS) Rename(from, to string) error {
	if err := sameDir(from, to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Remove deletes a file.
func (OS) Remove(name string) error { return os.Remove(name) }

// List returns the regular files in a directory by name.
func (OS) List(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(entries))
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, Info{Name: e.Name(), Size: info.Size(), Modified: info.ModTime()})
	}
	return infos, nil
}

// SyncDir makes the entries of a directory durable.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Lock takes the exclusive lock of a directory. Where the system has no flock,
// nothing is locked.
func (OS) Lock(dir string) (io.Closer, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := flock(d); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: dir, Err: err}, d.Close())
	}
	return d, nil
}

type osFile struct{ *os.File }

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
