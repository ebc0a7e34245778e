package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the disk that a Store is on. It is not the log's: what is written here
// can be lost.
type FS = vfs.FS

// RemoveAll deletes a store's directory; fs nil is the real disk.
func RemoveAll(dir string, fs FS) error {
	if fs == nil {
		fs = vfs.Default
	}
	if err := fs.RemoveAll(dir); err != nil {
		return fmt.Errorf("views: %w", err)
	}
	return nil
}

// Options configures a Store; the zero value works.
type Options struct {
	FS         FS    // nil = the real disk
	CacheBytes int64 // block cache; default 32 MiB
	Logger     *slog.Logger
	Mark       func(applied uint64) uint32 // tells the log from others; nil = does not
}

// Store is the views on disk. Reads may come from any goroutine; there is one
// writer.
type Store struct {
	db    *pebble.DB
	cache *pebble.Cache
	space *space
	mark  func(uint64) uint32
}

// Open opens or creates the store in dir.
func Open(dir string, o Options) (*Store, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if err := o.FS.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("views: %w", err)
	}
	if o.Mark == nil {
		o.Mark = func(uint64) uint32 { return 0 }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := removeDamaged(dir, o); err != nil {
		return nil, err
	}
	space := newSpace(dir, o.FS, o.Logger)
	cache := pebble.NewCache(o.CacheBytes)
	db, err := pebble.Open(dir, &pebble.Options{
		FS:                 space.guarded(),
		Cache:              cache,
		DisableWAL:         true, // the log is the WAL
		FormatMajorVersion: pebble.FormatNewest,
		MemTableSize:       16 << 20,
		Logger:             logger{o.Logger},
		EventListener:      &pebble.EventListener{DataCorruption: damaged(dir, o)},
	})
	if err != nil {
		cache.Unref()
		return nil, fmt.Errorf("views %s: %w", dir, err)
	}
	return &Store{db, cache, space, o.Mark}, nil
}

// Meta is how far the views have come.
type Meta struct {
	Applied uint64 // log position up to which frames have been applied
	Live    int64  // bytes in the log of all live runs
	Mark    uint32 // of the log, at Applied
}

// Meta returns the applied position and the live bytes; zero in a new store.
func (s *Store) Meta() (Meta, error) { return meta(s.db) }

func meta(r pebble.Reader) (Meta, error) {
	var m Meta
	err := get(r, []byte{kindMeta}, func(v []byte) error {
		if len(v) != 20 {
			return errValue
		}
		m.Applied = binary.BigEndian.Uint64(v)
		m.Live = int64(binary.BigEndian.Uint64(v[8:]))
		m.Mark = binary.BigEndian.Uint32(v[16:])
		return nil
	})
	return m, err
}

// Queue returns what a queue holds; zero for one that nothing was put in.
func (s *Store) Queue(q QueueID) (Queue, error) { return queue(s.db, q) }

func queue(r pebble.Reader, id QueueID) (q Queue, err error) {
	err = get(r, queueKey(kindQueue, id), func(v []byte) error {
		q, err = decodeQueue(v)
		return err
	})
	return q, err
}

// Known returns the outcome of a batch id.
func (s *Store) Known(id string) (k Known, ok bool, err error) { return known(s.db, id) }

func known(r pebble.Reader, id string) (k Known, ok bool, err error) {
	err = get(r, idKey(id), func(v []byte) error {
		ok = true
		k, err = decodeKnown(v)
		return err
	})
	return k, ok, err
}

// Key returns the place of the latest record of a key in a compacted topic.
func (s *Store) Key(topic uint64, key string) (q QueueID, offset int64, ok bool, err error) {
	return latest(s.db, topic, key)
}

func latest(r pebble.Reader, topic uint64, key string) (q QueueID, offset int64, ok bool, err error) {
	err = get(r, keyKey(topic, key), func(v []byte) error {
		if len(v) != 12 {
			return errValue
		}
		ok = true
		q = QueueID{Topic: topic, Queue: binary.BigEndian.Uint32(v)}
		offset = int64(binary.BigEndian.Uint64(v[4:]))
		return nil
	})
	return q, offset, ok, err
}

// get calls f with the value of key, or not at all.
func get(r pebble.Reader, key []byte, f func([]byte) error) error {
	v, c, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	return errors.Join(f(v), c.Close())
}

// Dump writes every key and value in order: two stores that hold the same views
// give the same bytes.
func (s *Store) Dump(w io.Writer) error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	for it.First(); it.Valid(); it.Next() {
		if _, err := fmt.Fprintf(w, "%q %x\n", it.Key(), it.Value()); err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// logger hands Pebble's own messages on: its Infof tells of every compaction.
type logger struct{ l *slog.Logger }

func (l logger) Infof(format string, args ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.l.Warn("views store", "message", fmt.Sprintf(format, args...))
}

func (l logger) Fatalf(format string, args ...any) {
	panic("views store: " + fmt.Sprintf(format, args...))
}
