package index

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// fullDisk is a disk that can be full: writes and new files fail then.
func fullDisk() (FS, *atomic.Bool) {
	var full atomic.Bool
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync, errorfs.OpFileSyncData:
			if full.Load() {
				return syscall.ENOSPC
			}
		default: // needs no space
		}
		return nil
	})), &full
}

func fill(t *testing.T, s *Store, from int) {
	t.Helper()
	for i := range 10 {
		if err := s.db.Set(fmt.Append(nil, "key", from+i), []byte("value"), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
}

// A disk that is full ends neither the process nor the store: what must be
// written is refused, reads go on, and so does all else once there is space.
func TestDiskFull(t *testing.T) {
	fs, full := fullDisk()
	s, err := Open("views", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	s.space.every = time.Millisecond
	fill(t, s, 0)
	full.Store(true)
	for range 3 {
		if err := s.Flush(); !errors.Is(err, errFull) {
			t.Fatalf("Flush on a full disk: %v", err)
		}
	}
	if _, c, err := s.db.Get([]byte("key3")); err != nil {
		t.Fatalf("a read on a full disk: %v", err)
	} else if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	fill(t, s, 10)
	full.Store(false)
	end := time.Now().Add(10 * time.Second)
	for err := s.Flush(); err != nil; err = s.Flush() { // until the store has looked again
		if time.Now().After(end) {
			t.Fatalf("Flush when there is space again: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open("views", Options{FS: fs}); err != nil {
		t.Fatal(err)
	}
	if _, c, err := s.db.Get([]byte("key19")); err != nil {
		t.Fatalf("what was flushed: %v", err)
	} else if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Closing does not wait for space.
func TestCloseOnFullDisk(t *testing.T) {
	fs, full := fullDisk()
	s, err := Open("views", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	s.space.every = time.Millisecond
	fill(t, s, 0)
	full.Store(true)
	if err := s.Close(); !errors.Is(err, errFull) {
		t.Fatalf("Close on a full disk: %v", err)
	}
	full.Store(false) // what is left behind can end
}
