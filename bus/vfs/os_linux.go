package vfs

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Sync is fdatasync: contents and size, without the times.
func (f *osFile) Sync() error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = raw.Control(func(fd uintptr) {
		for {
			if syncErr = unix.Fdatasync(int(fd)); !errors.Is(syncErr, unix.EINTR) {
				return
			}
		}
	})
	if err == nil {
		err = syncErr
	}
	if err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}
