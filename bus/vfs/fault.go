package vfs

import (
	"io"
	"sync/atomic"
)

// OpKind is a kind of operation, named as its method.
type OpKind string

// The operations that Fault counts.
const (
	OpMkdirAll OpKind = "MkdirAll"
	OpCreate   OpKind = "Create"
	OpOpen     OpKind = "Open"
	OpRename   OpKind = "Rename"
	OpRemove   OpKind = "Remove"
	OpList     OpKind = "List"
	OpSyncDir  OpKind = "SyncDir"
	OpLock     OpKind = "Lock"
	OpReadAt   OpKind = "ReadAt"
	OpWriteAt  OpKind = "WriteAt"
	OpSync     OpKind = "Sync"
	OpTruncate OpKind = "Truncate"
	OpSize     OpKind = "Size"
	OpClose    OpKind = "Close" // of files and locks
)

// Changes reports whether the operation may change what is on the disk or what
// a crash may leave there.
func (k OpKind) Changes() bool {
	switch k {
	case OpOpen, OpList, OpLock, OpReadAt, OpSize, OpClose:
		return false
	case OpMkdirAll, OpCreate, OpRename, OpRemove, OpSyncDir, OpWriteAt, OpSync, OpTruncate:
	}
	return true
}

// Op is one operation on an FS or on one of its files.
type Op struct {
	N    int64 // 1 for the first
	Kind OpKind
	Name string // of the file or directory; of the old name in Rename
	Off  int64  // of ReadAt and WriteAt; the size in Truncate
	Len  int    // of ReadAt and WriteAt
}

// Fault wraps a file system and makes operations fail. Its fields are set
// before its first use.
type Fault struct {
	FS FS
	// Fail is asked before every operation; nil never fails. With an error the
	// operation is not done and returns that error, but a WriteAt first writes
	// partial bytes. A Sync that fails on a file of Mem leaves there what Linux
	// leaves: contents that can be read, and that no later Sync will write.
	Fail func(Op) (partial int, err error)
	// After is called after every operation, whatever came of it; nil is not.
	After func(Op)

	n atomic.Int64
}

var _ FS = (*Fault)(nil)

// FailNth is a Fail that makes the n-th operation fail, counted from 1.
func FailNth(n int64, partial int, err error) func(Op) (int, error) {
	return func(op Op) (int, error) {
		if op.N == n {
			return partial, err
		}
		return 0, nil
	}
}

// Ops returns the number of operations begun.
func (f *Fault) Ops() int64 { return f.n.Load() }

// do runs one operation; fault, if not nil, is what happens instead when it is
// to fail.
func (f *Fault) do(op Op, run func() error, fault func(partial int)) error {
	op.N = f.n.Add(1)
	if f.After != nil {
		defer f.After(op)
	}
	if f.Fail != nil {
		if partial, err := f.Fail(op); err != nil {
			if fault != nil {
				fault(partial)
			}
			return pathError(string(op.Kind), op.Name, err)
		}
	}
	return run()
}

// MkdirAll is FS.MkdirAll.
func (f *Fault) MkdirAll(dir string) error {
	return f.do(Op{Kind: OpMkdirAll, Name: dir}, func() error { return f.FS.MkdirAll(dir) }, nil)
}

// Create is FS.Create.
func (f *Fault) Create(name string) (File, error) { return f.file(OpCreate, name, f.FS.Create) }

// Open is FS.Open.
func (f *Fault) Open(name string) (File, error) { return f.file(OpOpen, name, f.FS.Open) }

func (f *Fault) file(kind OpKind, name string, open func(string) (File, error)) (File, error) {
	var file File
	err := f.do(Op{Kind: kind, Name: name}, func() (err error) {
		file, err = open(name)
		return err
	}, nil)
	if err != nil {
		return nil, err
	}
	return &faultFile{fault: f, name: name, file: file}, nil
}

// Rename is FS.Rename.
func (f *Fault) Rename(from, to string) error {
	return f.do(Op{Kind: OpRename, Name: from}, func() error { return f.FS.Rename(from, to) }, nil)
}

// Remove is FS.Remove.
func (f *Fault) Remove(name string) error {
	return f.do(Op{Kind: OpRemove, Name: name}, func() error { return f.FS.Remove(name) }, nil)
}

// List is FS.List.
func (f *Fault) List(dir string) (infos []Info, err error) {
	err = f.do(Op{Kind: OpList, Name: dir}, func() (err error) {
		infos, err = f.FS.List(dir)
		return err
	}, nil)
	return infos, err
}

// SyncDir is FS.SyncDir.
func (f *Fault) SyncDir(dir string) error {
	return f.do(Op{Kind: OpSyncDir, Name: dir}, func() error { return f.FS.SyncDir(dir) }, nil)
}

// Lock is FS.Lock.
func (f *Fault) Lock(dir string) (io.Closer, error) {
	var lock io.Closer
	err := f.do(Op{Kind: OpLock, Name: dir}, func() (err error) {
		lock, err = f.FS.Lock(dir)
		return err
	}, nil)
	if err != nil {
		return nil, err
	}
	return &faultLock{fault: f, name: dir, lock: lock}, nil
}

type faultLock struct {
	fault *Fault
	name  string
	lock  io.Closer
}

// Close frees the lock even when it is to fail, as close(2) does.
func (l *faultLock) Close() error {
	return l.fault.do(Op{Kind: OpClose, Name: l.name}, l.lock.Close, func(int) { _ = l.lock.Close() })
}

type faultFile struct {
	fault *Fault
	name  string
	file  File
}

func (f *faultFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.fault.do(Op{Kind: OpReadAt, Name: f.name, Off: off, Len: len(b)}, func() (err error) {
		n, err = f.file.ReadAt(b, off)
		return err
	}, nil)
	return n, err
}

func (f *faultFile) WriteAt(b []byte, off int64) (n int, err error) {
	write := func(b []byte) (err error) {
		n, err = f.file.WriteAt(b, off)
		return err
	}
	err = f.fault.do(Op{Kind: OpWriteAt, Name: f.name, Off: off, Len: len(b)}, func() error { return write(b) },
		func(partial int) {
			if partial = min(partial, len(b)); partial > 0 {
				_ = write(b[:partial]) // n tells what came of it; the error is the one asked for
			}
		})
	return n, err
}

func (f *faultFile) Sync() error {
	return f.fault.do(Op{Kind: OpSync, Name: f.name}, f.file.Sync, func(int) {
		if m, ok := f.file.(*memFile); ok {
			m.loseSync()
		}
	})
}

func (f *faultFile) Truncate(size int64) error {
	return f.fault.do(Op{Kind: OpTruncate, Name: f.name, Off: size}, func() error { return f.file.Truncate(size) }, nil)
}

func (f *faultFile) Size() (size int64, err error) {
	err = f.fault.do(Op{Kind: OpSize, Name: f.name}, func() (err error) {
		size, err = f.file.Size()
		return err
	}, nil)
	return size, err
}

// Close frees the handle even when it is to fail, as close(2) does.
func (f *faultFile) Close() error {
	return f.fault.do(Op{Kind: OpClose, Name: f.name}, f.file.Close, func(int) { _ = f.file.Close() })
}
