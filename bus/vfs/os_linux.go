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
	if err != nil {
		syncErr = fs.ErrClosed // the only reason not to be called
	}
	if syncErr != nil {
		return pathError("fdatasync", f.Name(), syncErr)
	}
	return nil
}
