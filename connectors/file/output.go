package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/bus/event"
	"millrace/connectors/formats"
)

// output is one written file. Several sinks, in other processes too, may share
// it: each publishes whole lines under the lock.
type output struct {
	s         *sink
	path      string
	sidecar   string
	delimiter byte
	lock      *os.File
	buf       []byte // lines to be published
	columns   []string
	slots     map[string]*slotState
	slot      *slotState // of the records being added
}

// add encodes a record. An error other than a *faultError refuses it alone.
func (o *output) add(ctx context.Context, r *event.Record) error {
	if o.s.cfg.Format == formats.NDJSON {
		o.buf = appendLine(o.buf, &r.Event, o.s.cfg.Value == "event")
		return nil
	}
	if o.columns == nil {
		columns, err := columnsOf(&r.Event)
		if err != nil {
			return err
		}
		if err := o.claimColumns(ctx, columns); err != nil {
			return o.fault(err)
		}
	}
	row, err := rowOf(&r.Event, o.columns)
	if err != nil {
		return err
	}
	o.buf, err = appendRow(o.buf, row, o.delimiter)
	return err
}

// loadColumns takes over the columns that the file has already.
func (o *output) loadColumns(ctx context.Context) error {
	wanted := o.s.cfg.Columns
	return o.locked(ctx, func(st *state, f *os.File) error {
		switch {
		case st.Length == 0 && len(wanted) > 0:
			o.columns = slices.Clone(wanted)
			return nil
		case st.Length == 0 || st.Columns != nil:
			o.columns = st.Columns
			return o.sameColumns(wanted)
		}
		head := make([]byte, min(st.Length, 1<<20))
		if _, err := f.ReadAt(head, 0); err != nil {
			return err
		}
		columns, err := parseHeader(head, o.delimiter)
		if err != nil {
			return fmt.Errorf("the file that is there has no CSV header: %w", err)
		}
		o.columns = columns
		return o.sameColumns(wanted)
	})
}

// sameColumns refuses a config that names other columns than the file has.
func (o *output) sameColumns(wanted []string) error {
	if len(wanted) == 0 || slices.Equal(wanted, o.columns) {
		return nil
	}
	return fmt.Errorf("csv.columns: %s has the columns %s: move the file away to begin one with others", o.path, strings.Join(o.columns, ","))
}

// claimColumns names the columns for everybody who writes the file.
func (o *output) claimColumns(ctx context.Context, columns []string) error {
	return o.locked(ctx, func(st *state, _ *os.File) error {
		if st.Columns == nil || st.Length == 0 && len(o.s.cfg.Columns) > 0 {
			st.Columns = columns
			if err := st.store(o.sidecar); err != nil {
				return err
			}
		}
		o.columns = st.Columns
		return nil
	})
}

var errTakenOver = errors.New("another sink has written this queue meanwhile")

// publish appends what waits and stores length and offsets. On return all of it
// is durable; after an error the sink is of no more use. Invariant 5.
func (o *output) publish(ctx context.Context) error {
	dirty := len(o.buf) > 0
	for _, slot := range o.slots {
		dirty = dirty || slot.next >= 0 && slot.store() != slot.base
	}
	if !dirty {
		return nil
	}
	err := o.locked(ctx, func(st *state, f *os.File) error {
		offsets := st.Offsets[o.s.connector]
		if offsets == nil {
			offsets = map[string]int64{}
			st.Offsets[o.s.connector] = offsets
		}
		for name, slot := range o.slots {
			stored, ok := offsets[name]
			if !ok {
				stored = -1
			}
			if slot.next >= 0 && stored != slot.base { // Invariant 11
				return fmt.Errorf("%w: queue %s stands at %d, not %d", errTakenOver, name, stored, slot.base)
			}
		}
		if err := o.write(st, f); err != nil {
			return err
		}
		for name, slot := range o.slots {
			if slot.next >= 0 && slot.store() >= 0 {
				offsets[name] = slot.store()
			}
		}
		if err := st.store(o.sidecar); err != nil {
			return err
		}
		for name, slot := range o.slots {
			if slot.next >= 0 && slot.store() >= 0 {
				slot.base = offsets[name]
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", o.path, err)
	}
	if cap(o.buf) > 2*bufferBytes {
		o.buf = nil
	}
	o.buf = o.buf[:0]
	return nil
}

// write appends the buffer to the file, or to a new one if the file is full.
func (o *output) write(st *state, f *os.File) error {
	if len(o.buf) == 0 {
		return nil
	}
	if o.full(st) {
		if err := o.rename(st); err != nil {
			return err
		}
		next, err := o.open()
		if err != nil {
			return err
		}
		defer func() { _ = next.Close() }() // what counts is Sync
		f = next
	}
	b := o.buf
	if st.Length == 0 {
		st.Begun = o.s.now().UTC()
		if o.columns != nil {
			header, err := appendRow(nil, o.columns, o.delimiter)
			if err != nil {
				return err
			}
			b = append(header, b...)
			st.Columns = o.columns
		}
	}
	if _, err := f.WriteAt(b, st.Length); err != nil {
		return errors.Join(err, f.Truncate(st.Length)) // whole lines only, even when the disk is full
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if st.Length == 0 {
		if err := syncDir(filepath.Dir(o.path)); err != nil {
			return err
		}
	}
	st.Length += int64(len(b))
	return nil
}

// full reports whether the file is to be renamed before more is written.
func (o *output) full(st *state) bool {
	limit, age := int64(o.s.cfg.RotateBytes), o.s.cfg.RotateInterval
	return st.Length > 0 && (limit > 0 && st.Length+int64(len(o.buf)) > limit ||
		age > 0 && !st.Begun.IsZero() && o.s.now().Sub(st.Begun) >= age)
}

// rename makes the file a finished part and says in the state that an empty one
// begins, before anything is written to it. A crash in between leaves no file at
// the path, which reads as an empty one.
func (o *output) rename(st *state) error {
	ext := filepath.Ext(o.path)
	base := strings.TrimSuffix(o.path, ext)
	for {
		st.Parts++
		part := fmt.Sprintf("%s-%s-%06d%s", base, st.Begun.UTC().Format("20060102T150405Z"), st.Parts, ext)
		if _, err := os.Lstat(part); err == nil {
			continue // of a crash between renaming and storing the state
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Rename(o.path, part); err != nil {
			return err
		}
		st.Length = 0
		return errors.Join(syncDir(filepath.Dir(o.path)), st.store(o.sidecar))
	}
}

func (o *output) open() (*os.File, error) {
	return os.OpenFile(o.path, os.O_CREATE|os.O_RDWR, 0o644)
}

// locked calls do with the state and the file, cut to what is valid of it, while
// no other sink can touch them.
func (o *output) locked(ctx context.Context, do func(*state, *os.File) error) error {
	if o.lock == nil {
		lock, err := os.OpenFile(strings.TrimSuffix(o.sidecar, ".millrace")+".lock", os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		o.lock = lock
	}
	for {
		ok, err := tryLock(o.lock)
		if err != nil {
			return err
		}
		if ok {
			break
		}
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for the lock of another sink: %w", err)
		}
	}
	defer unlock(o.lock) //nolint:errcheck // closing the file unlocks it as well
	st, known, err := loadState(o.sidecar)
	if err != nil {
		return err
	}
	f, err := o.open()
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // what counts is Sync
	length := st.Length
	if err := o.recover(&st, known, f); err != nil {
		return err
	}
	// Where the valid part ends is durable before anything is written behind it, or
	// a write that is not finished would be taken for content. Invariant 5.
	if !known || st.Length != length {
		if err := st.store(o.sidecar); err != nil {
			return err
		}
	}
	return do(&st, f)
}

// recover makes the file end where the state says.
func (o *output) recover(st *state, known bool, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	switch {
	case known && size > st.Length: // a write that was not finished
		return f.Truncate(st.Length)
	case known && size == st.Length, size == 0 && !known:
		return nil
	case known && size > 0:
		o.s.log.Warn("file is shorter than it was left: going on from its end", "path", o.path, "size", size, "was", st.Length)
	}
	// Somebody else's file, or one cut or emptied by somebody: it is taken as it is,
	// but a line is never begun in the middle of another.
	st.Length = size
	if size == 0 {
		st.Begun = time.Time{}
		return nil
	}
	st.Begun = info.ModTime().UTC()
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, size-1); err != nil {
		return err
	}
	if bytes.Equal(last, []byte("\n")) {
		return nil
	}
	if _, err := f.WriteAt([]byte("\n"), size); err != nil {
		return err
	}
	st.Length++
	return nil
}

func (o *output) close() error {
	if o.lock == nil {
		return nil
	}
	return o.lock.Close()
}
