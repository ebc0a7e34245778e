package commitlog_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

// damage opens a copy of a log after change has been made to the bytes of one of
// its segments, and returns what it holds.
func damage(t *testing.T, m *vfs.Mem, file string, change func([]byte) []byte) ([]string, *vfs.Mem, error) {
	t.Helper()
	c := copyDir(t, m)
	writeFile(t, c, file, change(readFile(t, c, file)))
	l, err := commitlog.Open(dir, commitlog.Options{FS: c})
	if err != nil {
		if c.OpenFiles() != 0 {
			t.Errorf("%d files left open", c.OpenFiles())
		}
		return nil, c, err
	}
	defer l.Close()
	return payloads(t, l, 0), c, nil
}

func flip(at int64) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at] ^= 0x40
		return b
	}
}

// TestDamageInLastSegment changes each byte of a segment: damage to what a later
// frame shows to have been durable is reported, other damage is a torn tail.
func TestDamageInLastSegment(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	l := open(t, commitlog.Options{FS: &m, ZeroAhead: 1024})
	want := []string{"first", "second, a longer one", "third"}
	var at []int64
	for _, p := range want {
		at = append(at, 64+int64(add(t, l, 7, p)))
	}
	end := 64 + int64(l.End())
	file := segment(firstSegment)
	for i := range end + 40 {
		got, c, err := damage(t, &m, file, flip(i))
		frame := len(at) - 1
		for frame >= 0 && at[frame] > i {
			frame--
		}
		switch {
		case i < 8, i >= 12 && i < 64: // the segment's header
			wantCorrupt(t, err, file, 0)
			continue
		case i < 12: // its version
			if _, ok := errors.AsType[*commitlog.CorruptError](err); err == nil || ok {
				t.Fatalf("byte %d: %v", i, err)
			}
			continue
		case err != nil && frame < 2:
			wantCorrupt(t, err, file, at[frame])
			continue
		case err != nil:
			t.Fatalf("byte %d: %v", i, err)
		}
		// Nothing shows that the last frame had been synced: it is cut when damaged.
		// Padding after a frame is not looked at.
		keep := 3
		if i >= at[2] && i < at[2]+32+int64(len(want[2])) {
			keep = 2
		} else if i < at[2] && i < at[frame]+32+int64(len(want[frame])) {
			t.Fatalf("byte %d: damage was not found", i)
		}
		if !slices.Equal(got, want[:keep]) {
			t.Fatalf("byte %d: got %q", i, got)
		}
		rest := end
		if keep == 2 {
			rest = at[2]
		}
		if strings.Trim(string(readFile(t, c, file)[rest:]), "\x00") != "" {
			t.Fatalf("byte %d: the tail was not made zeros", i)
		}
	}
}

// sealed returns a log with two sealed segments of two frames and one in use.
func sealed(t *testing.T) (*vfs.Mem, []commitlog.Segment) {
	t.Helper()
	m := &vfs.Mem{}
	l := open(t, commitlog.Options{FS: m, ZeroAhead: 1024})
	for range 2 {
		add(t, l, 1, "one")
		add(t, l, 2, "two, a bit longer than the other")
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	add(t, l, 3, "three")
	return m, l.Segments()
}

// TestDamageInSealedSegment changes each byte of one: open finds damage to header
// and seal, reading the rest.
func TestDamageInSealedSegment(t *testing.T) {
	t.Parallel()
	m, segs := sealed(t)
	file := segment(firstSegment)
	for i := range segs[0].Bytes {
		c := copyDir(t, m)
		writeFile(t, c, file, flip(i)(readFile(t, c, file)))
		l, err := commitlog.Open(dir, commitlog.Options{FS: c})
		switch {
		case i >= 8 && i < 12:
			if err == nil {
				t.Fatalf("byte %d: the version was taken", i)
			}
		case i < 64:
			wantCorrupt(t, err, file, 0)
		case i >= segs[0].Bytes-32:
			wantCorrupt(t, err, file, segs[0].Bytes-32)
		case i >= 64+35 && i < 64+40: // padding
			if err != nil {
				t.Fatal(err)
			}
		default:
			if err != nil {
				t.Fatalf("byte %d: %v", i, err)
			}
			at := int64(64)
			if i >= 64+40 {
				at += 40
			}
			var scanErr error
			for _, scanErr = range l.Scan(0) {
			}
			wantCorrupt(t, scanErr, file, at)
			_, readErr := l.Read(commitlog.Position(at - 64))
			wantCorrupt(t, readErr, file, at)
			if got, err := l.Read(segs[1].Base); err != nil || string(got.Payload) != "one" {
				t.Fatalf("the next segment: %v", err)
			}
		}
		if err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	m, segs := sealed(t)
	names := []string{firstSegment, "00000000000000000104", "00000000000000000208"}
	read := func(i int) []byte { return readFile(t, m, segment(names[i])) }
	first, second, last := read(0), read(1), read(2)
	for _, c := range []struct {
		name    string
		segment int
		bytes   []byte
		offset  int64 // of the corruption; -1 for none
	}{
		{"sealed: empty", 0, nil, 0},
		{"sealed: zeros", 0, make([]byte, len(first)), 0},
		{"sealed: cut in the header", 0, first[:20], 0},
		{"sealed: cut in a frame", 0, first[:120], 104},
		{"sealed: cut before the seal", 0, first[:segs[0].Bytes-32], segs[0].Bytes - 32},
		{"sealed: zeros after the seal", 0, append(slices.Clone(first), make([]byte, 500)...), -1},
		{"sealed: another segment's bytes", 0, second, 0},
		{"last: gone", 2, nil, 0},
		{"last: zeros", 2, make([]byte, len(last)), 0},
		{"last: cut in the header", 2, last[:63], 0},
		{"last: header only", 2, last[:64], -1},
		{"last: cut in a frame", 2, last[:80], -1},
		{"last: sealed", 2, append(slices.Clone(last[:64]), sealOf(last)...), 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := segment(names[c.segment])
			_, _, err := damage(t, m, file, func([]byte) []byte { return c.bytes })
			if c.offset >= 0 {
				wantCorrupt(t, err, file, c.offset)
			} else if err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("last removed", func(t *testing.T) {
		t.Parallel()
		c := copyDir(t, m)
		if err := c.Remove(segment(names[2])); err != nil {
			t.Fatal(err)
		}
		_, err := commitlog.Open(dir, commitlog.Options{FS: c})
		wantCorrupt(t, err, segment(names[1]), segs[1].Bytes-32)
	})
	t.Run("overlap", func(t *testing.T) {
		t.Parallel()
		c := copyDir(t, m)
		var other vfs.Mem
		l := open(t, commitlog.Options{FS: &other})
		add(t, l, 0, strings.Repeat("longer than the other log's first segment", 5))
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		writeFile(t, c, segment(firstSegment), readFile(t, &other, segment(firstSegment)))
		_, err := commitlog.Open(dir, commitlog.Options{FS: c})
		wantCorrupt(t, err, segment(names[1]), 64)
	})
	t.Run("other files", func(t *testing.T) {
		t.Parallel()
		c := copyDir(t, m)
		for _, name := range []string{"1.seg", "0000000000000000000x.seg", "notes", "99999999999999999999.seg"} {
			writeFile(t, c, dir+"/"+name, []byte("not ours"))
		}
		l, err := commitlog.Open(dir, commitlog.Options{FS: c})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// sealOf returns the seal that a segment would have before its first frame.
func sealOf(segment []byte) []byte {
	b := make([]byte, 32)
	base := binary.LittleEndian.Uint64(segment[16:])
	copy(b, "MRF\x01")
	b[13] = 1
	binary.LittleEndian.PutUint64(b[16:], base)
	binary.LittleEndian.PutUint64(b[24:], base)
	binary.LittleEndian.PutUint32(b[8:], frameSum(segment, b, nil))
	return b
}

// TestMisplacedFrame puts a frame where another stood; each is whole in itself.
func TestMisplacedFrame(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	l := open(t, commitlog.Options{FS: &m})
	for _, p := range []string{"aaaaaaaa", "bbbbbbbb", "cccccccc"} {
		add(t, l, 0, p)
	}
	file := segment(firstSegment)
	_, _, err := damage(t, &m, file, func(b []byte) []byte {
		copy(b[64+40:64+80], b[64:64+40])
		return b
	})
	wantCorrupt(t, err, file, 64+40)
	_, _, err = damage(t, &m, file, func(b []byte) []byte { // a gap of zeros
		clear(b[64+40 : 64+80])
		return b
	})
	wantCorrupt(t, err, file, 64+40)
}

// TestForgedFrame has a torn frame whose payload looks like a frame that tells
// of corruption. It is not believed: whoever made it cannot know the seed.
func TestForgedFrame(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	l := open(t, commitlog.Options{FS: &m})
	add(t, l, 0, "kept")
	pos := l.End()
	forged := make([]byte, 32)
	copy(forged, "MRF\x01")
	binary.LittleEndian.PutUint64(forged[16:], uint64(pos)+32)
	binary.LittleEndian.PutUint64(forged[24:], uint64(pos)+32)
	binary.LittleEndian.PutUint32(forged[8:], frameSum(make([]byte, 64), forged, nil))
	add(t, l, 0, string(forged))
	got, _, err := damage(t, &m, segment(firstSegment), flip(64+int64(pos)+8))
	if err != nil || !slices.Equal(got, []string{"kept"}) {
		t.Fatal(got, err)
	}
}
