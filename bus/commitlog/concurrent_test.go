package commitlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

// TestConcurrent reads, scans and removes from many goroutines while one appends.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		fs   vfs.FS
		dir  string
	}{{"os", nil, t.TempDir()}, {"mem", &vfs.Mem{}, dir}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, err := commitlog.Open(c.dir, commitlog.Options{FS: c.fs, SegmentBytes: 32 << 10, ZeroAhead: 4096, HotBytes: 20_000})
			if err != nil {
				t.Fatal(err)
			}
			concurrent(t, l)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// check looks whether a frame is what the writer below made of its position.
func checkFrame(f commitlog.Frame) bool {
	return len(f.Payload) >= 8 && binary.LittleEndian.Uint64(f.Payload) == uint64(f.Pos) &&
		bytes.Count(f.Payload[8:], []byte{f.Kind}) == len(f.Payload)-8
}

func concurrent(t *testing.T, l *commitlog.Log) {
	t.Helper()
	seed := rand.Uint64()
	var done atomic.Bool
	var wg sync.WaitGroup
	var mu sync.Mutex
	var positions []commitlog.Position
	read := func(rng *rand.Rand) {
		mu.Lock()
		if len(positions) == 0 {
			mu.Unlock()
			return
		}
		pos := positions[rng.IntN(len(positions))]
		if rng.IntN(2) == 0 {
			pos = positions[len(positions)-1]
		}
		mu.Unlock()
		f, err := l.Read(pos)
		if errors.Is(err, commitlog.ErrNotFound) && pos < l.First() {
			return
		}
		if err != nil || f.Pos != pos || !checkFrame(f) {
			t.Errorf("seed %d: read at %d: %v", seed, pos, err)
			done.Store(true)
		}
	}
	scan := func(rng *rand.Rand) {
		from := l.First()
		if rng.IntN(2) == 0 {
			from = l.Synced() - min(l.Synced(), 10_000)
		}
		for f, err := range l.Scan(from) {
			if err != nil || !checkFrame(f) {
				t.Errorf("seed %d: scan at %d: %v", seed, f.Pos, err)
				done.Store(true)
				return
			}
		}
		_, _, _ = l.Segments(), l.Size(), l.Stats()
	}
	remove := func(*rand.Rand) {
		if segs := l.Segments(); len(segs) > 8 {
			if err := l.Remove(segs[0].Base); err != nil && !errors.Is(err, commitlog.ErrNotFound) {
				t.Errorf("seed %d: remove: %v", seed, err)
			}
		}
	}
	for i, work := range []func(*rand.Rand){read, read, read, scan, remove, remove} {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for !done.Load() {
				work(rng)
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 99))
	tried := func() bool {
		s := l.Stats()
		return s.HotReads > 0 && s.ColdReads > 0 && s.Removes > 0
	}
	for start := time.Now(); (time.Since(start) < time.Second || !tried() && time.Since(start) < time.Minute) && !done.Load(); { // a busy disk takes its time
		var fresh []commitlog.Position
		for range rng.IntN(20) {
			kind := byte(rng.IntN(256))
			b := bytes.Repeat([]byte{kind}, 8+rng.IntN(3000))
			binary.LittleEndian.PutUint64(b, uint64(l.End()))
			pos, err := l.Append(kind, b)
			if err != nil {
				t.Errorf("seed %d: append: %v", seed, err)
				break
			}
			fresh = append(fresh, pos)
		}
		if err := l.Sync(); err != nil {
			t.Errorf("seed %d: sync: %v", seed, err)
			break
		}
		mu.Lock()
		positions = append(positions, fresh...)
		mu.Unlock()
	}
	done.Store(true)
	wg.Wait()
	if !tried() {
		t.Errorf("seed %d: nothing was tried: %+v", seed, l.Stats())
	}
}
