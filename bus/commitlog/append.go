package commitlog

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"millrace/bus/vfs"
)

// piece is the largest single write, in bytes: larger ones have a slow mode on
// some systems.
const piece = 64 << 10

// writer is the appending side. Offsets are bytes into the file of seg:
//
//	[0, flushed)      written
//	[flushed, off)    in buf
//	[off, allocated)  zeros, written
type writer struct {
	mu                      sync.Mutex
	seg                     *segment
	file                    vfs.File
	flushed, off, allocated int64
	buf                     []byte
	unsynced                []Frame
	failed                  error // why nothing more is taken
}

// Append adds a frame and returns its position. It is not durable, nor can it be
// read, before Sync. The log owns payload from now on: it must never change.
//
// ErrFull and ErrFrameTooLarge change nothing; after ErrFailed the log is to be
// opened again.
func (l *Log) Append(kind byte, payload []byte) (Position, error) {
	w := &l.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := l.usable(); err != nil {
		return 0, err
	}
	if n := int64(len(payload)); n > l.options.MaxFrame {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrFrameTooLarge, n, l.options.MaxFrame)
	}
	size := frameSize(len(payload))
	if w.off > segmentHeader && w.off+size+frameHeader > l.options.SegmentBytes {
		if err := l.roll(); err != nil {
			return 0, err
		}
	}
	if need := w.off + size + frameHeader; need > w.allocated {
		if err := l.extend(need); err != nil {
			return 0, err
		}
	}
	h := head{length: len(payload), kind: kind, pos: l.End(), durable: l.Synced()}
	if err := w.write(&h, payload); err != nil {
		return 0, l.fail(err)
	}
	w.unsynced = append(w.unsynced, Frame{Kind: kind, Pos: h.pos, Next: h.next(), Payload: payload})
	l.end.Store(uint64(h.next()))
	l.count.appends.Add(1)
	l.count.bytes.Add(size)
	return h.pos, nil
}

// Flush hands all that was appended to the operating system, so that it outlives
// the process, though not the machine.
func (l *Log) Flush() error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.w.flush(); err != nil {
		return l.fail(err)
	}
	return nil
}

// Sync makes all that was appended durable, and readable. Invariant 1.
func (l *Log) Sync() error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if l.Synced() == l.End() {
		return nil
	}
	return l.sync()
}

// Roll seals the segment being written, with all in it synced, and begins a new
// one. On a segment without frames it does nothing.
func (l *Log) Roll() error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if err := l.usable(); err != nil {
		return err
	}
	if l.w.off == segmentHeader {
		return nil
	}
	return l.roll()
}

func (l *Log) usable() error {
	switch {
	case l.closed.Load():
		return ErrClosed
	case l.w.failed != nil:
		return fmt.Errorf("%w: %w", ErrFailed, l.w.failed)
	}
	return nil
}

// fail stops the log for good: what the disk holds past the synced position is
// not known any more.
func (l *Log) fail(err error) error {
	l.w.failed = err
	l.w.unsynced = nil
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// extend writes zeros up to need, and further up to the next step.
func (l *Log) extend(need int64) error {
	w := &l.w
	target := max(need, min(w.allocated+l.options.ZeroAhead, l.options.SegmentBytes))
	zeros := make([]byte, piece)
	for w.allocated < target {
		n, err := w.file.WriteAt(zeros[:min(target-w.allocated, piece-w.allocated%piece)], w.allocated)
		w.allocated += int64(n)
		switch {
		case err == nil:
		case !vfs.IsFull(err):
			return l.fail(err)
		case w.allocated < need:
			l.count.full.Add(1)
			return fmt.Errorf("%w: %w", ErrFull, err)
		default: // enough for this frame
			target = need
		}
	}
	w.seg.size.Store(w.allocated)
	return nil
}

// write puts a frame into the buffer, or through it when it is large.
func (w *writer) write(h *head, payload []byte) error {
	size := int(frameSize(len(payload)))
	if size <= piece { // built in place: one copy, one pass of the checksum
		if len(w.buf)+size > piece {
			if err := w.flush(); err != nil {
				return err
			}
		}
		n := len(w.buf)
		w.buf = w.buf[:n+size]
		b := w.buf[n:]
		h.put(b)
		copy(b[frameHeader:], payload)
		body := b[:frameHeader+len(payload)]
		clear(b[len(body):])
		putSum(b, checksum(w.seg.seed, body))
		w.off += int64(size)
		return nil
	}
	var header [frameHeader]byte
	h.put(header[:])
	sum := checksum(w.seg.seed, header[:])
	putSum(header[:], checksum(sum, payload))
	if err := w.put(header[:]); err != nil {
		return err
	}
	if err := w.put(payload); err != nil {
		return err
	}
	return w.put(make([]byte, size-frameHeader-len(payload)))
}

// put copies b into the buffer and writes that whenever it is full.
func (w *writer) put(b []byte) error {
	for len(b) > 0 {
		n := copy(w.buf[len(w.buf):piece], b)
		w.buf = w.buf[:len(w.buf)+n]
		w.off += int64(n)
		b = b[n:]
		if len(w.buf) == piece {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if _, err := w.file.WriteAt(w.buf, w.flushed); err != nil {
		return err
	}
	w.flushed += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

// sync makes the segment durable and shows its frames to readers.
func (l *Log) sync() error {
	w := &l.w
	if err := w.flush(); err != nil {
		return l.fail(err)
	}
	start := time.Now()
	if err := w.file.Sync(); err != nil {
		return l.fail(err)
	}
	now := time.Now()
	l.count.syncs.Add(1)
	l.count.syncNanos.Add(int64(now.Sub(start)))
	w.seg.modified.Store(now.UnixNano())
	l.hot.add(w.unsynced)
	clear(w.unsynced) // the payloads are the cache's now
	w.unsynced = w.unsynced[:0]
	l.synced.Store(l.end.Load()) // Invariant 1: only now can they be read
	return nil
}

// roll goes over to a new segment. The new file is durable before the old one is
// sealed, and the old one before the first frame is written to the new one; so an
// unsealed segment followed by an empty one is what a crash leaves, and an
// unsealed one followed by frames is corruption.
func (l *Log) roll() error {
	w := &l.w
	next, file, err := l.create(l.End())
	if err != nil {
		return err
	}
	if err := l.seal(); err != nil {
		return errors.Join(err, file.Close())
	}
	old := w.seg
	l.begin(next, file)
	l.edit(func(list []*segment) []*segment { return append(slices.Clip(list), next) })
	l.files.add(old)
	l.count.rolls.Add(1)
	return nil
}

// begin makes an empty segment the one that is written to.
func (l *Log) begin(s *segment, file vfs.File) {
	s.file = file
	w := &l.w
	w.seg, w.file = s, file
	w.flushed, w.off, w.allocated = segmentHeader, segmentHeader, segmentHeader
}

// create makes a segment file, durable and without frames. When there is no
// space it leaves no trace and is ErrFull.
func (l *Log) create(base Position) (*segment, vfs.File, error) {
	s := newSegment(l.files, l.path(base), base)
	file, err := l.fs.Create(s.path)
	if err != nil {
		return nil, nil, l.notCreated(err)
	}
	now := time.Now()
	header, seed := encodeSegment(base, now)
	_, err = file.WriteAt(header, 0)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		undo := errors.Join(file.Close(), l.fs.Remove(s.path), l.fs.SyncDir(l.dir))
		if undo != nil {
			return nil, nil, l.fail(errors.Join(err, undo))
		}
		return nil, nil, l.notCreated(err)
	}
	s.seed = seed
	s.size.Store(segmentHeader)
	s.modified.Store(now.UnixNano())
	return s, file, nil
}

func (l *Log) notCreated(err error) error {
	if vfs.IsFull(err) {
		l.count.full.Add(1)
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return l.fail(err)
}

// seal ends the segment being written, durably. Its place was set aside when
// each frame was taken.
func (l *Log) seal() error {
	w := &l.w
	end := l.End()
	h := head{flags: flagSeal, pos: end, durable: l.Synced()}
	err := w.write(&h, nil)
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = w.file.Truncate(w.off)
	}
	if err != nil {
		return l.fail(err)
	}
	if err := l.sync(); err != nil {
		return err
	}
	w.seg.size.Store(w.off)
	w.seg.end.Store(uint64(end))
	return nil
}
