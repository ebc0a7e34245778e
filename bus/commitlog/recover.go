package commitlog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"millrace/bus/vfs"
)

// found is a segment as recovery sees it.
type found struct {
	*segment
	state state
}

// state is what the last segment holds.
type state int

const (
	inUse  state = iota // something after the header
	empty               // a header, and nothing after it
	unmade              // no header, and nothing after it: its creation was cut short
)

// recover brings the log to the state in which frames can be appended; see
// FORMAT.md, Recovery.
func (l *Log) recover() error {
	segs, err := l.load()
	if err != nil {
		return err
	}
	if len(segs) == 0 {
		return l.startAt(0)
	}
	last := segs[len(segs)-1]
	sealed := segs[:len(segs)-1]
	for i, s := range sealed {
		// A frame in the last segment shows that the one before was synced whole.
		whole := i < len(sealed)-1 || last.state == inUse
		t, err := s.readSeal(whole)
		if errors.Is(err, errUnsealed) && !whole {
			if err := l.discard(last); err != nil {
				return err
			}
			return l.resumeAt(s.segment, t) // its sealing was cut short
		}
		if err != nil {
			return err
		}
		if next := segs[i+1]; t.end > next.base {
			return next.corrupt(next.base, fmt.Errorf("it begins at position %d, before the end of the segment before it", next.base))
		}
		if next := segs[i+1]; l.options.OldestFirst && t.end < next.base {
			return next.corrupt(next.base, fmt.Errorf("the segment before it is missing: %s", l.path(t.end)))
		}
		if !whole {
			if err := l.settle(s.segment, t); err != nil {
				return err
			}
		}
		s.end.Store(uint64(t.end))
	}
	if last.state == unmade {
		if len(sealed) > 0 {
			return last.corrupt(last.position(0), errors.New("the segment is empty, yet the one before is sealed"))
		}
		if err := l.discard(last); err != nil {
			return err
		}
		return l.startAt(last.base)
	}
	return l.resume(last)
}

// load opens the list of segments with their headers read.
func (l *Log) load() ([]found, error) {
	infos, err := l.fs.List(l.dir)
	if err != nil {
		return nil, err
	}
	var segs []found
	for _, info := range infos {
		base, ok := parseName(info.Name)
		if !ok {
			continue
		}
		s := newSegment(l.files, l.path(base), base)
		s.size.Store(info.Size)
		s.modified.Store(info.Modified.UnixNano())
		segs = append(segs, found{segment: s})
	}
	slices.SortFunc(segs, func(a, b found) int { return cmp.Compare(a.base, b.base) })
	for i := range segs {
		s := &segs[i]
		l.edit(func(list []*segment) []*segment { return append(slices.Clip(list), s.segment) })
		header := make([]byte, segmentHeader)
		n, err := s.ReadAt(header, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if s.seed, err = decodeSegment(s.path, header[:n], s.base); err == nil && i < len(segs)-1 {
			continue
		}
		used, nonZeroErr := s.nonZero(segmentHeader)
		switch _, corrupt := errors.AsType[*CorruptError](err); {
		case nonZeroErr != nil:
			return nil, nonZeroErr
		case i == len(segs)-1 && used < 0 && corrupt:
			s.state = unmade
		case err != nil:
			return nil, err
		case used < 0:
			s.state = empty
		}
	}
	return segs, nil
}

// nonZero returns the offset of the first piece of the file, from off on, that
// is not all zeros; -1 when there is none.
func (s *segment) nonZero(off int64) (int64, error) {
	r := reader{file: s, limit: s.size.Load(), reuse: true}
	for ; off < r.limit; off += piece {
		b, err := r.bytes(off, piece)
		if err != nil {
			return 0, err
		}
		if !isZero(b) {
			return off, nil
		}
	}
	return -1, nil
}

// tail is what a walk through a segment found.
type tail struct {
	end     Position // after the last whole frame
	durable Position // the highest that a frame tells to have been durable
	sealed  bool
	frames  int
	reason  error // why the walk ended where it did, when not sealed
}

// readSeal returns where a sealed segment ends. When the segment is known to
// have been synced whole, its last bytes tell; otherwise all is read. It is
// errUnsealed, with the tail, where there is no seal and quick is not set; with
// quick a missing seal is corruption.
func (s *segment) readSeal(quick bool) (tail, error) {
	if quick {
		off := s.size.Load() - frameHeader
		pos := s.position(off)
		r := reader{file: s, seed: s.seed, limit: off + frameHeader}
		if off >= segmentHeader && off%frameAlign == 0 {
			h, _, err := r.frame(off, pos)
			if err == nil && h.flags == flagSeal {
				return tail{end: pos, durable: h.durable, sealed: true}, nil
			}
			if err != nil && !errors.Is(err, errBad) && !errors.Is(err, errEnd) {
				return tail{}, err
			}
		}
	}
	t, err := s.walk()
	switch {
	case err != nil || t.sealed:
		return t, err
	case quick:
		return t, s.corrupt(t.end, fmt.Errorf("%w: %w", errUnsealed, t.reason))
	}
	return t, errUnsealed
}

// walk reads a segment from its beginning up to its seal or the first place that
// is no whole frame. That is the end, unless a frame further on tells that what
// should be there had been durable.
func (s *segment) walk() (tail, error) {
	r := reader{file: s, seed: s.seed, limit: s.size.Load(), reuse: true}
	t := tail{end: s.base, durable: s.base}
	for {
		h, _, err := r.frame(s.offset(t.end), t.end)
		switch {
		case errors.Is(err, errEnd) || errors.Is(err, errBad):
			t.reason = err
			return t, s.checkBeyond(t)
		case err != nil:
			return t, err
		}
		t.durable = max(t.durable, h.durable)
		if h.flags == flagSeal {
			t.sealed = true
			return t, nil
		}
		t.end = h.next()
		t.frames++
	}
}

// checkBeyond looks for a whole frame after t.end that was written when t.end
// was durable already.
func (s *segment) checkBeyond(t tail) error {
	r := reader{file: s, seed: s.seed, limit: s.size.Load(), reuse: true}
	check := reader{file: s, seed: s.seed, limit: r.limit, reuse: true}
	var magic [4]byte
	binary.LittleEndian.PutUint32(magic[:], frameMagic)
	for off := s.offset(t.end) + frameAlign; off+frameHeader <= r.limit; off += frameAlign {
		b, err := r.bytes(off, frameHeader)
		if err != nil {
			return err
		}
		if [4]byte(b) != magic {
			continue
		}
		pos := s.position(off)
		if h, err := parseHead(b, pos); err != nil || h.durable <= t.end {
			continue
		}
		_, _, err = check.frame(off, pos)
		switch {
		case err == nil:
			return s.corrupt(t.end, fmt.Errorf("%w, and the frame at offset %d shows that it was", t.reason, off))
		case !errors.Is(err, errBad):
			return err
		}
	}
	return nil
}

// settle makes durable what a segment holds up to its end. Bytes above the
// durable position are written again, as they are: after a failed sync a system
// may take them for written, and not write them at the next one. The same goes
// for the header, unless a frame tells that it was durable.
func (l *Log) settle(s *segment, t tail) error {
	end := s.offset(t.end)
	if t.sealed {
		end += frameHeader
	}
	off := s.offset(t.durable)
	if t.durable == s.base {
		off = 0
	}
	file, err := s.handle()
	if err != nil {
		return err
	}
	buf := make([]byte, piece)
	for off < end {
		b := buf[:min(piece, end-off)]
		if _, err := file.ReadAt(b, off); err != nil {
			return err
		}
		if _, err := file.WriteAt(b, off); err != nil {
			return err
		}
		off += int64(len(b))
	}
	return file.Sync()
}

// wipe overwrites with zeros what is left after the end of a segment.
func (l *Log) wipe(s *segment, t tail) (torn bool, err error) {
	file, err := s.handle()
	if err != nil {
		return false, err
	}
	size := s.size.Load()
	off := s.offset(t.end)
	zeros := make([]byte, piece)
	for {
		if off, err = s.nonZero(off); off < 0 || err != nil {
			return torn, err
		}
		torn = true
		n := min(piece, size-off)
		if _, err := file.WriteAt(zeros[:n], off); err != nil {
			return torn, err
		}
		off += n
	}
}

// resume makes s, the last segment, the one that is written to.
func (l *Log) resume(last found) error {
	t, err := last.walk()
	if err != nil {
		return err
	}
	if t.sealed {
		return last.corrupt(t.end, errors.New("it is sealed, and the segment after it is missing"))
	}
	return l.resumeAt(last.segment, t)
}

func (l *Log) resumeAt(s *segment, t tail) error {
	torn, err := l.wipe(s, t)
	if err != nil {
		return err
	}
	if err := l.settle(s, t); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	if torn {
		l.options.Logger.Warn("log_tail_cut", "file", s.path, "offset", s.offset(t.end), "reason", t.reason)
	}
	file, err := s.handle()
	if err != nil {
		return err
	}
	l.files.forget(s)
	l.begin(s, file)
	l.w.off = s.offset(t.end)
	l.w.flushed, l.w.allocated = l.w.off, max(l.w.off, s.size.Load())
	l.end.Store(uint64(t.end))
	l.synced.Store(uint64(t.end))
	return nil
}

// startAt makes the first segment of a log.
func (l *Log) startAt(base Position) error {
	s, file, err := l.create(base)
	if err != nil {
		return err
	}
	l.begin(s, file)
	l.edit(func([]*segment) []*segment { return []*segment{s} })
	l.end.Store(uint64(base))
	l.synced.Store(uint64(base))
	return nil
}

// discard removes the last segment, which holds nothing. It is durable once the
// directory is synced, as it is before the next frame is taken.
func (l *Log) discard(last found) error {
	l.edit(func(list []*segment) []*segment { return slices.Clone(list[:len(list)-1]) })
	l.files.forget(last.segment)
	return errors.Join(last.release(ErrClosed), l.fs.Remove(last.path))
}

// handle returns the open file for writing.
func (s *segment) handle() (vfs.File, error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.file, nil
}
