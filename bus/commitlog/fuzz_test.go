package commitlog

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/bus/vfs"
)

// FuzzFrame reads arbitrary bytes as a frame. What is taken as one is, written
// again, the same bytes.
func FuzzFrame(f *testing.F) {
	const seed = 42
	for _, payload := range []string{"", "payload"} {
		h := head{length: len(payload), kind: 3, pos: 80, durable: 40}
		w := writer{seg: &segment{seed: seed}, buf: make([]byte, 0, piece)}
		if err := w.write(&h, []byte(payload)); err != nil {
			f.Fatal(err)
		}
		f.Add(w.buf, uint64(80))
	}
	f.Add(make([]byte, 40), uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, pos uint64) {
		// The checksum is made right, or hardly any input would come past it.
		if h, err := parseHead(b, Position(pos)); err == nil && frameHeader+h.length <= len(b) {
			var zero [frameHeader]byte
			copy(zero[:], b)
			putSum(zero[:], 0)
			h.sum = checksum(seed, append(zero[:], b[frameHeader:frameHeader+h.length]...))
			putSum(b, h.sum)
		}
		r := reader{file: bytes.NewReader(b), seed: seed, limit: int64(len(b))}
		h, payload, err := r.frame(0, Position(pos))
		if err != nil {
			if !errors.Is(err, errEnd) && !errors.Is(err, errBad) {
				t.Fatal(err)
			}
			return
		}
		w := writer{seg: &segment{seed: seed}, buf: make([]byte, 0, piece)}
		if frameSize(h.length) > piece {
			return
		}
		if err := w.write(&h, payload); err != nil {
			t.Fatal(err)
		}
		if n := frameHeader + h.length; !bytes.Equal(w.buf[:n], b[:n]) {
			t.Fatalf("read %x, wrote %x", b[:n], w.buf[:n])
		}
	})
}

// FuzzSegment opens logs with arbitrary segments: it is refused, or holds frames,
// takes more and is the same when opened again.
func FuzzSegment(f *testing.F) {
	var golden [][]byte
	for _, name := range []string{"00000000000000000000.seg", "00000000000000000112.seg"} {
		b, err := os.ReadFile(filepath.Join("testdata", "v1", name))
		if err != nil {
			f.Fatal(err)
		}
		golden = append(golden, b)
	}
	empty, _ := encodeSegment(0, time.Unix(0, 0))
	f.Add(golden[0], golden[1], uint16(0), []byte{})
	f.Add(golden[0], golden[1][:64], uint16(100), []byte{1})
	f.Add(golden[0], []byte{}, uint16(70), []byte{0, 0})
	f.Add(empty, []byte{}, uint16(64), []byte("torn"))
	f.Add([]byte{}, []byte{}, uint16(0), []byte{})
	f.Fuzz(func(t *testing.T, first, second []byte, at uint16, patch []byte) {
		first = bytes.Clone(first)
		if int(at) < len(first) {
			copy(first[at:], patch)
		}
		var m vfs.Mem
		put(t, &m, "/log/00000000000000000000.seg", first)
		if len(second) > 0 {
			put(t, &m, "/log/00000000000000000112.seg", second)
		}
		o := Options{FS: &m, SegmentBytes: 1000, ZeroAhead: 100}
		l, err := Open("/log", o)
		if err != nil {
			if m.OpenFiles() != 0 {
				t.Fatalf("%d files left open", m.OpenFiles())
			}
			return
		}
		before, scanErr := all(l)
		if _, err := l.Append(9, []byte("more")); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if l, err = Open("/log", o); err != nil {
			t.Fatal(err)
		}
		after, err := all(l)
		switch {
		case scanErr != nil: // a sealed segment is damaged: it still is
			if err == nil {
				t.Fatalf("%v is gone", scanErr)
			}
		case err != nil:
			t.Fatal(err)
		case len(after) != len(before)+1 || string(after[len(before)].Payload) != "more":
			t.Fatalf("%d frames became %d", len(before), len(after))
		}
		for i, f := range before {
			if a := after[i]; a.Pos != f.Pos || a.Kind != f.Kind || !bytes.Equal(a.Payload, f.Payload) {
				t.Fatalf("frame at %d changed", f.Pos)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func put(t *testing.T, m *vfs.Mem, name string, b []byte) {
	t.Helper()
	err := m.MkdirAll(filepath.Dir(name))
	if err != nil {
		t.Fatal(err)
	}
	file, err := m.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(b, 0)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func all(l *Log) (frames []Frame, err error) {
	for f, err := range l.Scan(0) {
		if err != nil {
			return frames, err
		}
		frames = append(frames, f)
	}
	return frames, nil
}
