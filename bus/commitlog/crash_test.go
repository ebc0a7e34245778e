package commitlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

// crashes opens what a crash now might leave, several times, and checks it. With
// deep, it crashes again after every operation of one of these recoveries.
func crashes(m *model, mem *vfs.Mem, o commitlog.Options, rng *rand.Rand, n int, deep bool) error {
	for i := range n {
		c := mem.Crash(rng)
		fault := &vfs.Fault{FS: c}
		var inner error
		if deep && i == 0 {
			fault.After = func(op vfs.Op) {
				if inner == nil && op.Kind.Changes() {
					inner = crashes(m, c, o, rng, 1, false)
				}
			}
		}
		o.FS = fault
		l, err := commitlog.Open(dir, o)
		if err == nil {
			err = m.check(l)
			if err == nil && rng.IntN(3) == 0 {
				fault.After = nil
				err = goOn(m, l, o, rng)
			}
			err = errors.Join(err, l.Close())
		}
		if err == nil && inner != nil {
			err = fmt.Errorf("second crash: %w", inner)
		}
		if err == nil && c.OpenFiles() != 0 {
			err = fmt.Errorf("%d files left open", c.OpenFiles())
		}
		if err != nil {
			return fmt.Errorf("crash %d: %w", i, err)
		}
	}
	return nil
}

// goOn appends to a recovered log and looks whether it holds that and nothing
// else: what was cut must not come back behind new frames.
func goOn(m *model, l *commitlog.Log, o commitlog.Options, rng *rand.Rand) error {
	c := &model{gone: m.gone, removing: maps.Clone(m.removing), frames: slices.Clone(m.frames)}
	for i, f := range m.frames {
		if f.pos >= l.End() { // as large as what was cut, so that the rest of it follows
			c.frames = c.frames[:i]
			payload := make([]byte, len(f.payload))
			if len(payload) > 0 {
				payload[0] = byte(rng.Uint32())
			}
			if _, err := l.Append(1, payload); err != nil {
				return err
			}
			c.frames = append(c.frames, modelFrame{pos: f.pos, next: f.next, kind: 1, payload: payload})
			break
		}
	}
	c.acked = len(c.frames)
	if err := l.Close(); err != nil {
		return err
	}
	l, err := commitlog.Open(dir, o)
	if err != nil {
		return err
	}
	return errors.Join(c.check(l), l.Close())
}

// TestCrash crashes after every operation of random schedules.
func TestCrash(t *testing.T) {
	t.Parallel()
	soak(t, func(seed uint64) error {
		r := newRun(seed)
		rng := rand.New(rand.NewPCG(seed, 2))
		var crashErr error
		r.fault.After = func(op vfs.Op) {
			if crashErr != nil || r.dead || !op.Kind.Changes() {
				return
			}
			if err := crashes(r.m, r.mem, r.options, rng, 3, rng.IntN(10) == 0); err != nil {
				crashErr = fmt.Errorf("after %s %s (operation %d): %w", op.Kind, op.Name, op.N, err)
			}
		}
		return errors.Join(r.play(60), crashErr)
	})
}

// TestFault makes the n-th operation fail, for every n of random schedules: it
// alone, or all from then on until the log is opened again, as when the process
// is killed.
func TestFault(t *testing.T) {
	t.Parallel()
	soak(t, func(seed uint64) error {
		var total int64
		for n := int64(0); n <= total; n++ { // 0 fails nothing and counts
			ops, err := faultAt(seed, n)
			if err != nil {
				return err
			}
			total = max(total, ops)
		}
		return nil
	})
}

// TestHeaderAfterFailedSync fails the sync of a new segment's header and opens the
// log again, as after the death of the process alone. The header can be read then
// but is not on the disk; frames that follow must not be the first to reach it.
func TestHeaderAfterFailedSync(t *testing.T) {
	t.Parallel()
	mem := &vfs.Mem{}
	dead := false
	fault := &vfs.Fault{FS: mem, Fail: func(op vfs.Op) (int, error) {
		dead = dead || op.Kind == vfs.OpSync
		if dead {
			return 0, syscall.EIO
		}
		return 0, nil
	}}
	if _, err := commitlog.Open(dir, commitlog.Options{FS: fault}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("open: %v, want that its sync failed", err)
	}
	l, err := commitlog.Open(dir, commitlog.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(1, bytes.Repeat([]byte{1}, 200_000)); err != nil { // more than the buffer holds: pages are written
		t.Fatal(err)
	}
	for seed := range uint64(100) {
		c := mem.Crash(rand.New(rand.NewPCG(seed, 0)))
		again, err := commitlog.Open(dir, commitlog.Options{FS: c})
		if err != nil {
			t.Fatalf("crash %d: %v", seed, err)
		}
		if end := again.End(); end != 0 && end != l.End() {
			t.Fatalf("crash %d: the log ends at %d, not at 0 or %d", seed, end, l.End())
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func faultAt(seed uint64, n int64) (ops int64, err error) {
	r := newRun(seed)
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	cause := []error{syscall.EIO, syscall.ENOSPC}[rng.IntN(2)]
	killed := n > 0 && rng.IntN(3) == 0
	partial := rng.IntN(5000)
	var failed vfs.Op
	r.fault.Fail = func(op vfs.Op) (int, error) {
		if r.dead {
			return 0, nil
		}
		if op.N == n {
			failed, r.down = op, killed
			return partial, cause
		}
		if r.down {
			return 0, cause
		}
		return 0, nil
	}
	var crashErr error
	r.fault.After = func(op vfs.Op) {
		if failed.N > 0 && op.N > failed.N && crashErr == nil && !r.dead && op.Kind.Changes() && rng.IntN(10) == 0 {
			crashErr = crashes(r.m, r.mem, r.options, rng, 2, false)
		}
	}
	surfaced := false
	r.tolerate = func(err error) bool {
		surfaced = surfaced || errors.Is(err, cause)
		return errors.Is(err, cause) && failed.N != 0
	}
	err = errors.Join(r.play(40), crashErr)
	if err != nil && crashErr == nil && r.tolerate(err) {
		err = nil // the last Close
	}
	// An extension cut short is no error where it is long enough for the frame.
	short := errors.Is(cause, syscall.ENOSPC) && failed.Kind == vfs.OpWriteAt
	if err == nil && failed.N > 0 && !surfaced && !short {
		err = errors.New("the error did not surface")
	}
	if err == nil {
		err = crashes(r.m, r.mem, r.options, rng, 3, false)
	}
	if err == nil && r.mem.OpenFiles() != 0 {
		err = fmt.Errorf("%d files left open", r.mem.OpenFiles())
	}
	if err != nil {
		return 0, fmt.Errorf("operation %d fails with %w (%s %s, killed %v): %w", n, cause, failed.Kind, failed.Name, killed, err)
	}
	return r.fault.Ops(), nil
}
