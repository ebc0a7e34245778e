// Package vfs is the seam between the log and the disk.
//
// [FS] and [File] are the few operations a log needs, with the promises of a
// POSIX file system and no more: what was written is on the disk after
// File.Sync, a name is there (or gone) after FS.SyncDir, and until then either
// may or may not survive a loss of power.
//
// [OS] is the real thing. [Mem] keeps files in memory and can tell what a disk
// might hold after a crash at any moment. [Fault] wraps either, makes chosen
// operations fail and calls a hook after each. All are safe for concurrent use.
//
// The package knows nothing of segments and imports nothing of Millrace.
package vfs

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"
)

// ErrLocked says that another holder has the lock of a directory.
var ErrLocked = errors.New("directory is in use by another process")

// FS is a file system. Errors wrap fs.ErrNotExist and fs.ErrExist where that is
// the cause.
type FS interface {
	// MkdirAll makes a directory and the missing ones above it, durably.
	MkdirAll(dir string) error
	// Create makes a new, empty file for reading and writing; fs.ErrExist when there
	// is one. The name is durable after SyncDir.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Rename gives a file another name in the same directory, replacing what has it.
	// It is atomic; it is durable after SyncDir.
	Rename(from, to string) error
	// Remove deletes a file; it is durable after SyncDir. Open handles stay usable.
	Remove(name string) error
	// List returns the regular files in a directory by name.
	List(dir string) ([]Info, error)
	// SyncDir makes all creations, renamings and removals in a directory durable.
	SyncDir(dir string) error
	// Lock takes the exclusive lock of an existing directory, or returns ErrLocked.
	// Closing the result or the end of the process frees it.
	Lock(dir string) (io.Closer, error)
}

// File is an open file. ReadAt and WriteAt may be called from many goroutines.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Sync makes contents and size durable. After an error nothing is known of what
	// was written since the last success, and repeating Sync does not help.
	Sync() error
	// Truncate sets the size; bytes added are zero.
	Truncate(size int64) error
	// Size returns the size in bytes.
	Size() (int64, error)
	// Close frees the handle and makes nothing durable.
	Close() error
}

// Info describes a file in a directory.
type Info struct {
	Name     string // without the directory
	Size     int64  // bytes
	Modified time.Time
}

// IsFull reports whether an error means that there is no space left, or that a
// quota is used up.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// sameDir refuses a renaming into another directory, which would need two
// directories to be synced.
func sameDir(from, to string) error {
	if filepath.Dir(from) != filepath.Dir(to) {
		return fmt.Errorf("rename %s to %s: not the same directory: %w", from, to, errors.ErrUnsupported)
	}
	return nil
}
