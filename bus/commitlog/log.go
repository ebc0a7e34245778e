package commitlog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"millrace/bus/vfs"
)

// Position is a place in the log: bytes of frames since it began.
type Position uint64

// Options are the settings of a Log; the zero value is ready for use.
type Options struct {
	// FS is the file system; nil = vfs.OS.
	FS vfs.FS
	// SegmentBytes is the size at which a segment is sealed and the next begins;
	// 0 = 64 MiB. A frame larger than that has a segment of its own.
	SegmentBytes int64
	// ZeroAhead is the step in bytes by which a segment is extended with zeros before
	// frames are written there, so that a sync need not wait for the file system's own
	// journal; 0 = 4 MiB.
	ZeroAhead int64
	// HotBytes is how much of the most recent frames is kept in memory for readers;
	// 0 = 32 MiB, negative = nothing.
	HotBytes int64
	// MaxFrame is the largest payload in bytes; 0 = 256 MiB, at most 1 GiB.
	MaxFrame int64
	// OldestFirst says that segments are only ever removed from the oldest on: one
	// that is missing between two others is corruption then.
	OldestFirst bool
	// Logger is told what recovery found; nil = nobody is.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	set := func(v *int64, def int64) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.SegmentBytes, 64<<20)
	set(&o.ZeroAhead, 4<<20)
	set(&o.HotBytes, 32<<20)
	set(&o.MaxFrame, 256<<20)
	switch {
	case o.SegmentBytes < 0:
		return o, fmt.Errorf("log: segment bytes: %d: must be positive", o.SegmentBytes)
	case o.ZeroAhead < 0:
		return o, fmt.Errorf("log: zero ahead: %d: must be positive", o.ZeroAhead)
	case o.MaxFrame < 0 || o.MaxFrame > 1<<30:
		return o, fmt.Errorf("log: max frame: %d: must be between 1 and %d", o.MaxFrame, 1<<30)
	}
	return o, nil
}

// Frame is one entry of the log. Nobody changes Payload.
type Frame struct {
	Kind      byte
	Pos, Next Position // its own place and that of the frame after it
	Payload   []byte
}

// Log is an open log. All methods may be called from any goroutine; Append, Flush,
// Sync, Roll and Close wait for each other, the rest wait for none of them.
type Log struct {
	dir     string
	options Options
	fs      vfs.FS
	lock    io.Closer
	files   *openFiles
	buffers sync.Pool // *[]byte of readAhead bytes, for Read
	hot     hot
	count   counters
	w       writer

	end, synced atomic.Uint64
	segments    atomic.Pointer[[]*segment] // by base; the last is the one written to
	closed      atomic.Bool
}

// Open opens the log in a directory, making both if need be. It cuts what a
// crash left unfinished at the end; it returns a *CorruptError where something
// that was durable is not as it was written, and vfs.ErrLocked when another
// process has the log open.
func Open(dir string, o Options) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := o.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	lock, err := o.FS.Lock(dir)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	l := &Log{dir: dir, options: o, fs: o.FS, lock: lock, files: &openFiles{fs: o.FS}}
	l.hot.max = o.HotBytes
	l.buffers.New = func() any {
		b := make([]byte, readFirst)
		return &b
	}
	l.segments.Store(new([]*segment))
	l.w.buf = make([]byte, 0, piece)
	if err := l.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("log: %w", err), l.release())
	}
	return l, nil
}

// First returns the position of the first frame that is still there; End when
// there is none.
func (l *Log) First() Position { return l.list()[0].base }

// End returns the position that the next frame will have.
func (l *Log) End() Position { return Position(l.end.Load()) }

// Synced returns the position below which everything is durable and can be read.
func (l *Log) Synced() Position { return Position(l.synced.Load()) }

func (l *Log) list() []*segment { return *l.segments.Load() }

// edit replaces the list of segments by what change makes of it; change must
// leave its argument as it is.
func (l *Log) edit(change func([]*segment) []*segment) {
	for {
		old := l.segments.Load()
		list := change(*old)
		if l.segments.CompareAndSwap(old, &list) {
			return
		}
	}
}

// find returns the segment that has pos, or nil.
func (l *Log) find(pos Position) *segment {
	list := l.list()
	i := sort.Search(len(list), func(i int) bool { return list[i].base > pos })
	if i == 0 || pos >= Position(list[i-1].end.Load()) {
		return nil
	}
	return list[i-1]
}

// Mark tells logs apart that have come as far as pos: it depends on what the
// segment before pos was made as. It is 0 where that is gone.
func (l *Log) Mark(pos Position) uint32 {
	if pos == 0 {
		return 0
	}
	if s := l.find(pos - 1); s != nil {
		return s.seed
	}
	return 0
}

// Segments returns the segments in order; the last is the one being written.
func (l *Log) Segments() []Segment {
	list := l.list()
	out := make([]Segment, len(list))
	for i, s := range list {
		out[i] = Segment{
			Base:     s.base,
			End:      min(Position(s.end.Load()), l.End()),
			Bytes:    s.size.Load(),
			Sealed:   s.sealed(),
			Modified: time.Unix(0, s.modified.Load()),
		}
	}
	return out
}

// Size returns the bytes of all segments on disk.
func (l *Log) Size() int64 {
	var n int64
	for _, s := range l.list() {
		n += s.size.Load()
	}
	return n
}

// Remove deletes the sealed segment with the given base, durably. It is
// ErrNotFound when there is none, or when it is the one being written. After
// another error a crash may bring the segment back; if it is still in Segments,
// Remove may be called again.
func (l *Log) Remove(base Position) error {
	if l.closed.Load() {
		return ErrClosed
	}
	list := l.list()
	i := slices.IndexFunc(list, func(s *segment) bool { return s.base == base })
	if i < 0 || !list[i].sealed() || !list[i].removing.CompareAndSwap(false, true) {
		return fmt.Errorf("segment %d: %w", base, ErrNotFound)
	}
	s := list[i]
	l.edit(func(list []*segment) []*segment { // first, so that First never shows what Read does not find
		return slices.DeleteFunc(slices.Clone(list), func(x *segment) bool { return x == s })
	})
	if err := l.fs.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.edit(func(list []*segment) []*segment {
			list = append(slices.Clone(list), s)
			slices.SortFunc(list, func(a, b *segment) int { return cmp.Compare(a.base, b.base) })
			return list
		})
		s.removing.Store(false)
		return fmt.Errorf("remove segment: %w", err)
	}
	l.files.forget(s)
	closeErr := s.release(ErrNotFound)
	l.hot.drop(s.base, Position(s.end.Load()))
	l.count.removes.Add(1)
	if err := errors.Join(l.fs.SyncDir(l.dir), closeErr); err != nil {
		return fmt.Errorf("remove segment: %w", err)
	}
	return nil
}

// Close syncs what was appended and closes the files; reads under way finish
// first. The error is that of the sync; a log that has failed is closed without.
// A second Close does nothing.
func (l *Log) Close() error {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.closed.Load() {
		return nil
	}
	var err error
	if l.w.failed == nil && l.Synced() < l.End() {
		err = l.sync()
	}
	return errors.Join(err, l.release())
}

// release closes all files and frees the lock.
func (l *Log) release() error {
	l.closed.Store(true)
	var errs []error
	for _, s := range l.list() {
		errs = append(errs, s.release(ErrClosed))
	}
	return errors.Join(append(errs, l.lock.Close())...)
}

func (l *Log) path(base Position) string { return filepath.Join(l.dir, fileName(base)) }
