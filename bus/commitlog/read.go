package commitlog

import (
	"errors"
	"fmt"
	"io"
	"iter"
)

const (
	readFirst = 16 << 10  // what Read reads to find a frame's length and, mostly, all of it
	readAhead = 256 << 10 // what Scan reads at a time
)

// Read returns the frame at pos, which must be a frame's and below Synced;
// otherwise, or when its segment was removed, it is ErrNotFound. What is not
// whole on the disk, or no frame at all, is a *CorruptError.
func (l *Log) Read(pos Position) (Frame, error) {
	if l.closed.Load() {
		return Frame{}, ErrClosed
	}
	if pos >= l.Synced() {
		return Frame{}, fmt.Errorf("position %d: %w", pos, ErrNotFound)
	}
	s := l.find(pos)
	if s == nil || (pos-s.base)%frameAlign != 0 {
		return Frame{}, fmt.Errorf("position %d: %w", pos, ErrNotFound)
	}
	if f, ok := l.hot.get(pos); ok {
		l.count.hotReads.Add(1)
		return f, nil
	}
	l.count.coldReads.Add(1)
	buf := l.buffers.Get().(*[]byte)
	defer l.buffers.Put(buf)
	return s.frame(*buf, pos)
}

// frame reads one frame into new memory, with buf as the place to read to first.
func (s *segment) frame(buf []byte, pos Position) (Frame, error) {
	off := s.offset(pos)
	n, err := s.ReadAt(buf, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return Frame{}, s.readError(pos, err)
	}
	buf = buf[:n]
	h, err := parseHead(buf, pos)
	if err == nil && h.flags == flagSeal {
		err = errEnd
	}
	if err == nil && off+frameSize(h.length) > s.size.Load() {
		err = fmt.Errorf("%w: it is longer than the file", errBad)
	}
	if err != nil {
		return Frame{}, s.corrupt(pos, err)
	}
	payload := make([]byte, h.length)
	if have := copy(payload, buf[frameHeader:]); have < len(payload) {
		if _, err := s.ReadAt(payload[have:], off+frameHeader+int64(have)); err != nil {
			return Frame{}, s.readError(pos, err)
		}
	}
	if err := h.checkSum(s.seed, buf, payload); err != nil {
		return Frame{}, s.corrupt(pos, err)
	}
	return Frame{Kind: h.kind, Pos: pos, Next: h.next(), Payload: payload}, nil
}

// readError says why the bytes at pos could not be had.
func (s *segment) readError(pos Position, err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return fmt.Errorf("position %d: %w", pos, ErrNotFound)
	case errors.Is(err, ErrClosed):
		return ErrClosed
	case errors.Is(err, io.EOF):
		return s.corrupt(pos, fmt.Errorf("%w: the file ends within it", errBad))
	}
	return fmt.Errorf("read segment: %w", err)
}

// Scan returns the frames in order from the first at or after from, up to what
// is synced when the loop begins. A segment removed meanwhile is passed over. An
// error is the last thing it yields. Payloads share memory with up to 256 KiB of
// their neighbours: keep a copy of what is to be kept for long.
func (l *Log) Scan(from Position) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		to := l.Synced()
		for _, s := range l.list() {
			if l.closed.Load() {
				yield(Frame{}, ErrClosed)
				return
			}
			err := s.scan(from, min(to, Position(s.end.Load())), func(f Frame) bool { return yield(f, nil) })
			switch {
			case err == nil || errors.Is(err, ErrNotFound):
			case errors.Is(err, errStop):
				return
			default:
				yield(Frame{}, err)
				return
			}
		}
	}
}

var errStop = errors.New("the loop ended")

// scan calls fn with the frames in [from, to).
func (s *segment) scan(from, to Position, fn func(Frame) bool) error {
	if from >= to || s.base >= to {
		return nil
	}
	r := reader{file: s, seed: s.seed, limit: s.offset(to)}
	pos := s.base
	if from > pos && (from-pos)%frameAlign == 0 {
		if _, _, err := r.frame(s.offset(from), from); err == nil {
			pos = from // else it is no frame's: count from the beginning
		}
	}
	for pos < to {
		h, payload, err := r.frame(s.offset(pos), pos)
		if err == nil && h.flags == flagSeal {
			err = errBad
		}
		switch {
		case errors.Is(err, errEnd) || errors.Is(err, errBad):
			return s.corrupt(pos, err)
		case err != nil:
			return s.readError(pos, err)
		}
		if pos >= from && !fn(Frame{Kind: h.kind, Pos: pos, Next: h.next(), Payload: payload}) {
			return errStop
		}
		pos = h.next()
	}
	return nil
}

// reader reads a file forwards in large pieces. What it has handed out is never
// overwritten, unless reuse is set.
type reader struct {
	file  io.ReaderAt
	seed  uint32
	limit int64 // offset of the end
	reuse bool
	at    int64 // offset of buf
	buf   []byte
}

// bytes returns n bytes at off, fewer only at the limit or the end of the file.
func (r *reader) bytes(off, n int64) ([]byte, error) {
	n = min(n, r.limit-off)
	if n <= 0 {
		return nil, nil
	}
	if off < r.at || off+n > r.at+int64(len(r.buf)) {
		if err := r.fill(off, n); err != nil {
			return nil, err
		}
	}
	b := r.buf[off-r.at:]
	n = min(n, int64(len(b)))
	return b[:n:n], nil
}

// fill reads at least n bytes from off on, keeping those it has.
func (r *reader) fill(off, n int64) error {
	var have []byte
	if off >= r.at && off < r.at+int64(len(r.buf)) {
		have = r.buf[off-r.at:]
	}
	want := min(max(n, readAhead), r.limit-off)
	next := r.buf[:0]
	if !r.reuse || int64(cap(next)) < want {
		next = make([]byte, 0, want)
	}
	next = append(next, have...)
	m, err := r.file.ReadAt(next[len(next):want], off+int64(len(next)))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r.at, r.buf = off, next[:len(next)+m]
	return nil
}

// frame reads and checks the frame with position pos at off: errEnd, an error
// that wraps errBad, or one of reading.
func (r *reader) frame(off int64, pos Position) (head, []byte, error) {
	b, err := r.bytes(off, frameHeader)
	if err != nil {
		return head{}, nil, err
	}
	h, err := parseHead(b, pos)
	if err != nil {
		return h, nil, err
	}
	size := frameSize(h.length)
	if off+size > r.limit {
		return h, nil, fmt.Errorf("%w: it is longer than the file", errBad)
	}
	b, err = r.bytes(off, size)
	if err != nil {
		return h, nil, err
	}
	if int64(len(b)) < size {
		return h, nil, fmt.Errorf("%w: the file ends within it", errBad)
	}
	end := frameHeader + h.length
	payload := b[frameHeader:end:end]
	return h, payload, h.checkSum(r.seed, b, payload)
}
