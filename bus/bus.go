package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"millrace/bus/commitlog"
	"millrace/bus/event"
	"millrace/bus/frame"
	"millrace/bus/group"
	"millrace/bus/index"
	"millrace/bus/vfs"
	"millrace/bus/watch"
)

// Options configures a Bus. The zero value works.
type Options struct {
	FS           vfs.FS        // of the log; nil = the real disk
	ViewsFS      index.FS      // of the views; nil = the real disk
	SegmentBytes int64         // default 64 MiB
	MaxEvent     int64         // bytes of one event; default 64 MiB
	MaxPending   int64         // bytes of appends waiting at once; default 256 MiB
	SyncInterval time.Duration // of async topics; default 200 ms
	CleanEvery   time.Duration // retention and cleaning; default 10 s, < 0 = never by itself
	DedupeFor    time.Duration // batch ids are known at least this long; default 15 min
	Lease        time.Duration // of group members; default 10 s
	CacheBytes   int64         // log frames kept for readers of old data; default 32 MiB
	Now          func() time.Time
	Logger       *slog.Logger
}

func (o *Options) defaults() {
	o.MaxEvent = defaultTo(o.MaxEvent, 64<<20)
	o.SegmentBytes = defaultTo(o.SegmentBytes, 64<<20)
	o.MaxPending = defaultTo(o.MaxPending, 256<<20)
	o.SyncInterval = defaultTo(o.SyncInterval, 200*time.Millisecond)
	o.CleanEvery = defaultTo(o.CleanEvery, 10*time.Second)
	o.DedupeFor = defaultTo(o.DedupeFor, 15*time.Minute)
	o.Lease = defaultTo(o.Lease, group.DefaultLease)
	o.CacheBytes = defaultTo(o.CacheBytes, 32<<20)
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

func defaultTo[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Bus is a broker on the built-in engine: one log for all queues, and its
// views. It implements Client.
type Bus struct {
	o      Options
	log    *commitlog.Log
	index  *index.Store
	frames frame.Cache
	watch  watch.Queues
	stats  counters
	topics atomic.Pointer[topicSet]
	ids    atomic.Uint64 // for the records of our own

	reqs         chan *pending
	room         *semaphore.Weighted // bytes of appends under way
	stopping     chan struct{}
	gone         chan struct{} // closed when the committer has ended
	epochsAtOpen map[slotKey]uint64
	stopped      sync.WaitGroup
	stopOnce     sync.Once
	closeErr     error

	topicMu sync.Mutex // one change of the topics at a time

	// mu guards what follows. Nothing is called out to while it is held.
	mu      sync.Mutex
	broken  error
	saved   map[slotKey]savedRecord // the checkpoints, as the log has them
	groups  *group.State
	kick    chan struct{} // tells groupLoop that there is something to do
	changed chan struct{} // closed and replaced when some group changed
	members uint64
}

var _ Client = (*Bus)(nil)

// Open opens or creates a broker in dir: dir/log holds the log, the only truth;
// dir/views can be deleted and is rebuilt. One process at a time may have it
// open. A log that is corrupt before its tail is an error that names file and
// offset (ErrCorrupt).
func Open(dir string, o Options) (*Bus, error) {
	o.defaults()
	lg, err := commitlog.Open(filepath.Join(dir, "log"), commitlog.Options{
		FS: o.FS, SegmentBytes: o.SegmentBytes, OldestFirst: true, MaxFrame: 2*o.MaxEvent + 1<<20, Logger: o.Logger,
	})
	if err != nil {
		return nil, corrupt(err)
	}
	b := &Bus{
		o: o, log: lg,
		reqs: make(chan *pending, maxGroup), room: semaphore.NewWeighted(o.MaxPending),
		stopping: make(chan struct{}), gone: make(chan struct{}), epochsAtOpen: map[slotKey]uint64{},
		saved: map[slotKey]savedRecord{}, groups: group.New(o.Lease),
		kick: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	b.frames.Limit = o.CacheBytes
	b.ids.Store(uint64(o.Now().UnixNano()))
	if err := b.openViews(filepath.Join(dir, "views")); err != nil {
		return nil, errors.Join(err, lg.Close())
	}
	if err := b.load(); err != nil {
		return nil, errors.Join(err, b.index.Abandon(), lg.Close())
	}
	b.stopped.Go(b.commitLoop)
	b.stopped.Go(b.groupLoop)
	b.stopped.Go(b.cleanLoop)
	return b, nil
}

// openViews opens the views and brings them up to the log's end; views that
// cannot belong to this log are thrown away and rebuilt.
func (b *Bus) openViews(dir string) error {
	mark := func(at uint64) uint32 { return b.log.Mark(commitlog.Position(at)) }
	o := index.Options{FS: b.o.ViewsFS, Logger: b.o.Logger, Mark: mark}
	ix, err := index.Open(dir, o)
	var m index.Meta
	if err == nil {
		m, err = ix.Meta()
	}
	first, end := uint64(b.log.First()), uint64(b.log.Synced())
	// Invariant 1: views never pass the synced position; behind the first they miss
	// what was cleaned since; another log's say nothing.
	if err != nil || m.Applied > end || m.Applied != 0 && m.Applied < first || m.Mark != mark(m.Applied) {
		b.o.Logger.Warn("views do not fit the log and are rebuilt", "applied", m.Applied, "log_first", first, "log_end", end, "error", err)
		if ix != nil {
			if err := ix.Abandon(); err != nil {
				return err
			}
		}
		if err := index.RemoveAll(dir, b.o.ViewsFS); err != nil {
			return err
		}
		if ix, err = index.Open(dir, o); err != nil {
			return err
		}
		m = index.Meta{}
	}
	b.index = ix
	if err := b.recover(m.Applied); err != nil {
		return errors.Join(corrupt(err), ix.Abandon())
	}
	return nil
}

// recover applies the log from a position to its end.
func (b *Bus) recover(from uint64) error {
	t := b.index.Begin()
	n := 0
	at := from
	for f, err := range b.log.Scan(commitlog.Position(from)) {
		if err != nil {
			return fmt.Errorf("recovery: %w", err)
		}
		p, err := frame.Parse(f.Payload)
		if err != nil {
			return frame.Bad(uint64(f.Pos), err)
		}
		if err := frame.Apply(t, f.Kind, uint64(f.Pos), &p); err != nil {
			return err
		}
		at = uint64(f.Next)
		if n += len(f.Payload); n > 4<<20 {
			if err := t.Commit(at); err != nil {
				return err
			}
			t, n = b.index.Begin(), 0
		}
	}
	return t.Commit(max(at, uint64(b.log.First())))
}

// load reads from the views what is kept in memory: topics, checkpoints, epochs.
func (b *Bus) load() error {
	if err := b.loadTopics(); err != nil {
		return err
	}
	if err := b.eachKeyed(TopicOffsets, func(e *event.Event) error {
		var r savedRecord
		if err := unmarshalOwn(TopicOffsets, e, &r); err != nil {
			return err
		}
		b.saved[slotKey{r.Group, r.Slot}] = r
		return nil
	}); err != nil {
		return err
	}
	return b.eachKeyed(TopicCluster, func(e *event.Event) error {
		var r grantRecord
		if err := unmarshalOwn(TopicCluster, e, &r); err != nil {
			return err
		}
		b.groups.Restore(r.Group, r.Slot, r.Epoch)
		b.epochsAtOpen[slotKey{r.Group, r.Slot}] = r.Epoch
		return nil
	})
}

// Close stops the bus: appends under way are finished, the views flushed.
func (b *Bus) Close() error {
	b.stop()
	b.stopOnce.Do(func() {
		b.closeErr = errors.Join(b.index.Close(), b.log.Close())
	})
	return b.closeErr
}

func (b *Bus) stop() {
	b.mu.Lock()
	select {
	case <-b.stopping:
	default:
		close(b.stopping)
	}
	b.mu.Unlock()
	b.stopped.Wait()
	b.watch.Close()
}

func (b *Bus) setBroken(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = err
}

// Err returns why the bus takes nothing more, or nil: for health checks.
func (b *Bus) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}

// inCommitter runs f between batches, all that was appended being applied.
func (b *Bus) inCommitter(ctx context.Context, f func() error) error {
	p := &pending{exec: f, done: make(chan outcome, 1)}
	_, err := b.submit(ctx, p)
	return err
}
