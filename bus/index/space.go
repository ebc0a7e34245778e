package index

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// roomBytes is how much must fit on the disk before writing goes on.
const roomBytes = 1 << 20

// errFull says that something cannot end before there is space again.
var errFull = errors.New("views: no space left on the disk: what is not written is built from the log at the next start; free some space")

// space makes the store wait where a write finds the disk full: Pebble gives up
// for good when its manifest cannot be written. Reads go on meanwhile, and so do
// changes as long as there is memory for them.
type space struct {
	fs    FS
	dir   string
	log   *slog.Logger
	stuck chan struct{} // received from while the store waits
	every time.Duration // between two looks
}

func newSpace(dir string, fs FS, l *slog.Logger) *space {
	return &space{fs: fs, dir: dir, log: l, stuck: make(chan struct{}), every: time.Second}
}

// guarded is the disk as Pebble is to see it.
func (s *space) guarded() FS { return vfs.OnDiskFull(s.fs, s.wait) }

// wait returns once something fits on the disk.
func (s *space) wait() {
	s.log.Warn("views wait for space: the disk is full", "dir", s.dir)
	for {
		err := s.probe()
		if !vfs.IsNoSpaceError(err) {
			s.log.Info("views go on", "dir", s.dir)
			return
		}
		select {
		case s.stuck <- struct{}{}: // somebody gives up; this goes on
		case <-time.After(s.every):
		}
	}
}

// probe writes a file and removes it.
func (s *space) probe() error {
	name := path.Join(s.dir, "space.probe")
	f, err := s.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, roomBytes))
	return errors.Join(err, f.Close(), s.fs.Remove(name))
}

// within waits for done, or says that the disk is full.
func (s *space) within(done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-s.stuck:
		return errFull
	}
}

// Flush makes all applied transactions durable. On a full disk it fails; they
// become durable later.
func (s *Store) Flush() error {
	done, err := s.db.AsyncFlush()
	if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	return s.space.within(done)
}

// Close flushes what is in memory and closes the store. On a full disk it fails,
// and the store is left as a crash would leave it.
func (s *Store) Close() error {
	return s.close(func() error { return errors.Join(s.db.Flush(), s.db.Close()) })
}

// Abandon closes the store without flushing, as a crash would leave it.
func (s *Store) Abandon() error { return s.close(s.db.Close) }

func (s *Store) close(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = f()
		s.cache.Unref()
	}()
	if full := s.space.within(done); full != nil {
		return full
	}
	return err
}
