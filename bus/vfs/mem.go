package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that knows which of its contents a disk would
// still have after a loss of power; see Crash. The zero value is empty and has
// only the directories "." and "/".
type Mem struct {
	mu       sync.Mutex
	dirs     map[string]*memDir
	capacity int64
	open     int
}

var _ FS = (*Mem)(nil)

// memDir is a directory: its entries as they are, as the disk surely has them,
// and the changes between the two in order.
type memDir struct {
	now, durable map[string]*inode
	pending      []dirChange
	locked       bool
}

// dirChange is one atomic change of entries: the name gone, if any, and the
// name added, if any.
type dirChange struct {
	gone, added string
	node        *inode
}

func newDir() *memDir {
	return &memDir{now: map[string]*inode{}, durable: map[string]*inode{}}
}

// SetCapacity bounds the space all files together may take, in bytes, counted
// in whole pages of 4 KiB; writes beyond fail with ENOSPC. 0 means no bound.
func (m *Mem) SetCapacity(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = n
}

// OpenFiles returns the number of handles and locks not closed.
func (m *Mem) OpenFiles() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

// room returns how many more pages files may take.
func (m *Mem) room() int64 {
	if m.capacity == 0 {
		return 1 << 62
	}
	var pages int64
	for _, d := range m.dirs {
		for _, n := range d.now {
			pages += int64(len(n.pages))
		}
	}
	return m.capacity/pageSize - pages
}

// dir returns a directory, or nil.
func (m *Mem) dir(name string) *memDir {
	name = filepath.Clean(name)
	if d := m.dirs[name]; d != nil {
		return d
	}
	if name != "." && name != string(filepath.Separator) {
		return nil
	}
	return m.makeDir(name)
}

func (m *Mem) makeDir(name string) *memDir {
	if m.dirs == nil {
		m.dirs = map[string]*memDir{}
	}
	d := newDir()
	m.dirs[name] = d
	return d
}

// find returns the directory that a name is in, its last element, and the file.
func (m *Mem) find(name string) (d *memDir, base string, n *inode) {
	name = filepath.Clean(name)
	d, base = m.dir(filepath.Dir(name)), filepath.Base(name)
	if d != nil {
		n = d.now[base]
	}
	return d, base, n
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// MkdirAll makes a directory and the missing ones above it, durably.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for dir = filepath.Clean(dir); m.dir(dir) == nil; dir = filepath.Dir(dir) {
		if _, _, n := m.find(dir); n != nil {
			return pathError("mkdir", dir, syscall.ENOTDIR)
		}
		m.makeDir(dir)
	}
	return nil
}

// Create makes a new, empty file.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, n := m.find(name)
	switch {
	case d == nil:
		return nil, pathError("create", name, fs.ErrNotExist)
	case n != nil || m.dirs[filepath.Clean(name)] != nil:
		return nil, pathError("create", name, fs.ErrExist)
	}
	n = &inode{pages: map[int64]*page{}, modified: time.Now()}
	d.now[base] = n
	d.pending = append(d.pending, dirChange{added: base, node: n})
	m.open++
	return &memFile{fs: m, node: n, name: name}, nil
}

// Open opens an existing file.
func (m *Mem) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _, n := m.find(name)
	if n == nil {
		return nil, pathError("open", name, fs.ErrNotExist)
	}
	m.open++
	return &memFile{fs: m, node: n, name: name}, nil
}

// Rename gives a file another name in the same directory.
func (m *Mem) Rename(from, to string) error {
	if err := sameDir(from, to); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d, old, n := m.find(from)
	if n == nil {
		return pathError("rename", from, fs.ErrNotExist)
	}
	if name := filepath.Base(to); name != old {
		delete(d.now, old)
		d.now[name] = n
		d.pending = append(d.pending, dirChange{gone: old, added: name, node: n})
	}
	return nil
}

// Remove deletes a file.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, n := m.find(name)
	if n == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	delete(d.now, base)
	d.pending = append(d.pending, dirChange{gone: base})
	return nil
}

// List returns the files in a directory by name.
func (m *Mem) List(dir string) ([]Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dir(dir)
	if d == nil {
		return nil, pathError("list", dir, fs.ErrNotExist)
	}
	infos := make([]Info, 0, len(d.now))
	for _, name := range slices.Sorted(maps.Keys(d.now)) {
		n := d.now[name]
		infos = append(infos, Info{Name: name, Size: n.size, Modified: n.modified})
	}
	return infos, nil
}

// SyncDir makes the entries of a directory durable.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dir(dir)
	if d == nil {
		return pathError("sync", dir, fs.ErrNotExist)
	}
	d.durable, d.pending = maps.Clone(d.now), nil
	return nil
}

// Lock takes the exclusive lock of a directory. A crash frees it.
func (m *Mem) Lock(dir string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dir(dir)
	switch {
	case d == nil:
		return nil, pathError("lock", dir, fs.ErrNotExist)
	case d.locked:
		return nil, pathError("lock", dir, ErrLocked)
	}
	d.locked = true
	m.open++
	return &memLock{fs: m, dir: d}, nil
}

type memLock struct {
	fs  *Mem
	dir *memDir // nil once closed
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.dir == nil {
		return errors.New("lock is freed already")
	}
	l.dir.locked, l.dir = false, nil
	l.fs.open--
	return nil
}
