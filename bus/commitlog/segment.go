package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"millrace/bus/vfs"
)

// maxOpen is how many sealed segments keep their file open for readers.
const maxOpen = 128

// unknown is the end of a segment that frames are still added to.
const unknown = Position(math.MaxUint64)

// Segment describes one file of the log.
type Segment struct {
	Base, End Position // of its frames
	Bytes     int64    // size of the file
	Sealed    bool     // nothing is added any more
	Modified  time.Time
}

// segment is one file. Its frames begin at file offset segmentHeader with
// position base. It reads as an io.ReaderAt, opening the file when needed.
type segment struct {
	base  Position
	seed  uint32
	path  string
	files *openFiles

	end      atomic.Uint64 // unknown until sealed
	size     atomic.Int64
	modified atomic.Int64 // nanoseconds since 1970
	removing atomic.Bool
	used     atomic.Int64 // when it was last read, by openFiles' count

	mu   sync.RWMutex // held for reading while the file is read
	file vfs.File     // nil while not open
	gone error        // why it cannot be read any more
}

func newSegment(files *openFiles, path string, base Position) *segment {
	s := &segment{base: base, path: path, files: files}
	s.end.Store(uint64(unknown))
	return s
}

// offset returns the place in the file of a position.
func (s *segment) offset(pos Position) int64 { return segmentHeader + int64(pos-s.base) }

// position is the reverse of offset.
func (s *segment) position(off int64) Position { return s.base + Position(off-segmentHeader) }

func (s *segment) sealed() bool { return Position(s.end.Load()) != unknown }

func (s *segment) corrupt(pos Position, err error) error {
	return &CorruptError{File: s.path, Offset: s.offset(pos), Err: err}
}

// ReadAt reads from the file.
func (s *segment) ReadAt(b []byte, off int64) (int, error) {
	for {
		s.mu.RLock()
		switch {
		case s.gone != nil:
			defer s.mu.RUnlock()
			return 0, s.gone
		case s.file != nil:
			defer s.mu.RUnlock()
			s.used.Store(s.files.clock.Add(1))
			return s.file.ReadAt(b, off)
		}
		s.mu.RUnlock()
		if err := s.open(); err != nil {
			return 0, err
		}
	}
}

func (s *segment) open() error {
	s.mu.Lock()
	opened := false
	if s.file == nil && s.gone == nil {
		f, err := s.files.fs.Open(s.path)
		if err != nil {
			defer s.mu.Unlock()
			if s.removing.Load() && errors.Is(err, fs.ErrNotExist) {
				return ErrNotFound
			}
			return fmt.Errorf("open segment: %w", err)
		}
		s.file, opened = f, true
	}
	s.mu.Unlock()
	if opened {
		s.files.add(s)
	}
	return nil
}

// release closes the file once nobody reads it; with a reason, for good.
func (s *segment) release(reason error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason != nil {
		s.gone = reason
	}
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// openFiles bounds how many sealed segments are open.
type openFiles struct {
	fs    vfs.FS
	clock atomic.Int64

	mu   sync.Mutex
	open []*segment
}

// add counts a segment in, and closes the one that was not read for longest
// when there are too many.
func (o *openFiles) add(s *segment) {
	o.mu.Lock()
	s.used.Store(o.clock.Add(1))
	o.open = append(o.open, s)
	var idle *segment
	if len(o.open) > maxOpen {
		idle = slices.MinFunc(o.open, func(a, b *segment) int { return int(a.used.Load() - b.used.Load()) })
		o.remove(idle)
	}
	o.mu.Unlock()
	if idle != nil {
		_ = idle.release(nil) // it was only read
	}
}

func (o *openFiles) forget(s *segment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.remove(s)
}

func (o *openFiles) remove(s *segment) {
	o.open = slices.DeleteFunc(o.open, func(x *segment) bool { return x == s })
}
