package commitlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

const dir = "/data/log"

// modelFrame is a frame as the model remembers it.
type modelFrame struct {
	pos, next commitlog.Position
	kind      byte
	payload   []byte
}

// model is what a log must hold.
type model struct {
	frames   []modelFrame                // in order; all whose Append was begun
	acked    int                         // the first so many are durable
	gone     map[commitlog.Position]bool // positions of frames surely removed
	removing map[commitlog.Position]bool // positions that may be removed
}

func newModel() *model {
	return &model{gone: map[commitlog.Position]bool{}, removing: map[commitlog.Position]bool{}}
}

// check compares what a log recovered to with the model: all that was acked and
// not removed is there, what was not acked is a prefix, nothing else is there.
func (m *model) check(l *commitlog.Log) error {
	i, cut := 0, false
	for f, err := range l.Scan(0) {
		if err != nil {
			return err
		}
		for ; i < len(m.frames) && m.frames[i].pos < f.Pos; i++ {
			if err := m.mayMiss(i, &cut); err != nil {
				return err
			}
		}
		if i == len(m.frames) || m.frames[i].pos != f.Pos {
			return fmt.Errorf("frame at %d was never appended", f.Pos)
		}
		want := m.frames[i]
		switch {
		case cut:
			return fmt.Errorf("frame at %d is there, one before it is not", f.Pos)
		case m.gone[f.Pos]:
			return fmt.Errorf("frame at %d was removed", f.Pos)
		case f.Kind != want.kind || f.Next != want.next || !bytes.Equal(f.Payload, want.payload):
			return fmt.Errorf("frame at %d differs", f.Pos)
		}
		got, err := l.Read(f.Pos)
		switch {
		case err != nil:
			return fmt.Errorf("read frame at %d: %w", f.Pos, err)
		case got.Kind != want.kind || got.Next != want.next || !bytes.Equal(got.Payload, want.payload):
			return fmt.Errorf("frame at %d differs when read alone", f.Pos)
		}
		i++
	}
	for ; i < len(m.frames); i++ {
		if err := m.mayMiss(i, &cut); err != nil {
			return err
		}
	}
	if l.Synced() != l.End() {
		return fmt.Errorf("synced to %d of %d after open", l.Synced(), l.End())
	}
	return nil
}

func (m *model) mayMiss(i int, cut *bool) error {
	pos := m.frames[i].pos
	switch {
	case m.gone[pos] || m.removing[pos]:
	case i < m.acked:
		return fmt.Errorf("acked frame %d at %d is missing (%d acked)", i, pos, m.acked)
	default:
		*cut = true
	}
	return nil
}

// adopt takes over what a reopened log holds, all of which is durable now.
func (m *model) adopt(l *commitlog.Log) {
	m.frames = slices.DeleteFunc(m.frames, func(f modelFrame) bool { return f.pos >= l.End() })
	m.acked = len(m.frames)
	segs := l.Segments()
	for pos := range m.removing {
		if !slices.ContainsFunc(segs, func(s commitlog.Segment) bool { return s.Base <= pos && pos < s.End }) {
			m.gone[pos] = true
		}
	}
	clear(m.removing)
}

// run is one schedule of calls on a log.
type run struct {
	rng     *rand.Rand
	m       *model
	mem     *vfs.Mem
	fault   *vfs.Fault
	dead    bool // the process has been killed: nothing more reaches the disk
	down    bool // every operation fails, until the log is opened again
	fixed   int  // when not 0, the size of most payloads: frames of a lost tail stand where new ones will
	log     *commitlog.Log
	options commitlog.Options
	// tolerate says which errors are expected; the rest end the run.
	tolerate func(error) bool
	seen     error // the first tolerated error
}

func newRun(seed uint64) *run {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := &run{rng: rng, m: newModel(), mem: &vfs.Mem{}, fixed: []int{0, 40, 1000}[rng.IntN(3)]}
	r.fault = &vfs.Fault{FS: r.mem}
	r.options = testOptions(rng, r.fault)
	return r
}

func testOptions(rng *rand.Rand, fs vfs.FS) commitlog.Options {
	return commitlog.Options{
		FS:           fs,
		SegmentBytes: []int64{2048, 9000, 200_000}[rng.IntN(3)],
		ZeroAhead:    []int64{1, 1000, 8192}[rng.IntN(3)],
		HotBytes:     []int64{-1, 4000, 0}[rng.IntN(3)],
	}
}

// try handles the error of a call: reports whether the schedule goes on.
func (r *run) try(what string, err error) error {
	if err == nil {
		return nil
	}
	if r.tolerate == nil || !r.tolerate(err) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if r.seen == nil {
		r.seen = err
	}
	return nil
}

// reopen closes the log, if it is open, and opens it again.
func (r *run) reopen() error {
	if err := r.try("close", r.close()); err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		r.down = false
		l, err := commitlog.Open(dir, r.options)
		if err == nil {
			err := r.m.check(l)
			if err != nil && r.try("check", err) == nil {
				err = r.m.check(l)
			}
			if err != nil {
				return errors.Join(fmt.Errorf("after reopening: %w", err), l.Close())
			}
			r.log = l
			r.m.adopt(l)
			return nil
		}
		if attempt == 1 {
			return fmt.Errorf("open again: %w", err)
		}
		if err := r.try("open", err); err != nil {
			return err
		}
	}
}

func (r *run) append() error {
	size := r.rng.IntN(300)
	if r.fixed != 0 {
		size = r.fixed
	}
	switch r.rng.IntN(40) {
	case 0:
		size = 1000 + r.rng.IntN(9000)
	case 1:
		size = 60_000 + r.rng.IntN(90_000)
	case 2:
		size = 0
	}
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(r.rng.Uint32())
	}
	kind := byte(r.rng.IntN(256))
	pos := r.log.End()
	next := pos + commitlog.Position((32+size+7)&^7)
	r.m.frames = append(r.m.frames, modelFrame{pos: pos, next: next, kind: kind, payload: payload})
	got, err := r.log.Append(kind, payload)
	switch {
	case errors.Is(err, commitlog.ErrFull):
		if r.log.End() != pos {
			return fmt.Errorf("full: end moved from %d to %d", pos, r.log.End())
		}
		r.m.frames = r.m.frames[:len(r.m.frames)-1]
	case err == nil && (got != pos || r.log.End() != next):
		return fmt.Errorf("append: at %d to %d, want %d to %d", got, r.log.End(), pos, next)
	case err != nil && r.log.End() != pos:
		return fmt.Errorf("append failed: end moved from %d to %d", pos, r.log.End())
	}
	return r.try("append", err)
}

// ackSynced counts as durable what the log says is synced.
func (r *run) ackSynced() {
	for r.m.acked < len(r.m.frames) && r.m.frames[r.m.acked].next <= r.log.Synced() {
		r.m.acked++
	}
}

func (r *run) remove() error {
	segs := r.log.Segments()
	if len(segs) == 1 {
		return nil
	}
	s := segs[r.rng.IntN(len(segs)-1)]
	var in []commitlog.Position
	for _, f := range r.m.frames {
		if s.Base <= f.pos && f.pos < s.End && !r.m.gone[f.pos] {
			in = append(in, f.pos)
			r.m.removing[f.pos] = true
		}
	}
	err := r.log.Remove(s.Base)
	if err == nil {
		for _, pos := range in {
			delete(r.m.removing, pos)
			r.m.gone[pos] = true
			if _, err := r.log.Read(pos); !errors.Is(err, commitlog.ErrNotFound) {
				return fmt.Errorf("read at %d after removal: %w", pos, err)
			}
		}
	}
	return r.try("remove", err)
}

func (r *run) step() error {
	var err error
	switch p := r.rng.IntN(100); {
	case p < 60:
		err = r.append()
	case p < 80:
		if err = r.try("sync", r.log.Sync()); err == nil {
			r.ackSynced()
		}
	case p < 84:
		err = r.try("flush", r.log.Flush())
	case p < 89:
		err = r.try("roll", r.log.Roll())
	case p < 95:
		err = r.remove()
	case p < 98:
		err = r.reopen()
	default:
		err = r.crash()
	}
	if err == nil && r.log != nil {
		r.ackSynced()
	}
	return err
}

// crash goes on with what a crash has left.
func (r *run) crash() error {
	mem := r.mem.Crash(r.rng)
	r.dead = true
	_ = r.close() // only frees memory: the disk it writes to is not looked at again
	r.mem, r.fault.FS, r.dead = mem, mem, false
	return r.reopen()
}

// play runs a whole schedule, reopening whenever the log has failed.
func (r *run) play(steps int) error {
	if err := r.reopen(); err != nil {
		return err
	}
	for range steps {
		if err := r.step(); err != nil {
			return errors.Join(err, r.close())
		}
		if r.down {
			r.seen = nil
			if err := r.reopen(); err != nil {
				return err
			}
		}
		if r.seen != nil && !errors.Is(r.seen, commitlog.ErrFull) {
			if _, err := r.log.Append(0, nil); errors.Is(err, commitlog.ErrFailed) {
				if err := r.reopen(); err != nil {
					return err
				}
			} else if err == nil {
				r.m.frames = append(r.m.frames, modelFrame{pos: r.log.End() - 32, next: r.log.End(), payload: []byte{}})
			}
			r.seen = nil
		}
	}
	return r.close()
}

func (r *run) close() error {
	if r.log == nil {
		return nil
	}
	l := r.log
	r.log = nil
	return l.Close()
}
