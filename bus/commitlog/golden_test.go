package commitlog_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

var goldenFiles = []string{"00000000000000000000.seg", "00000000000000000112.seg"}

type goldenFrame struct {
	kind    byte
	payload string
}

var goldenFrames = []goldenFrame{
	{1, "a frame"}, {2, ""}, {255, "1234567"}, // in the first segment
	{3, "the second segment"}, {0, "synced with the one before"},
}

// TestGoldenWrite writes the golden segments again, byte for byte. With
// MILLRACE_UPDATE=1 it replaces them, which a new version of the format needs
// and nothing else.
func TestGoldenWrite(t *testing.T) {
	var m vfs.Mem
	synctest.Test(t, func(t *testing.T) { // for the time in the segment headers
		l, err := commitlog.Open(dir, commitlog.Options{FS: &m, ZeroAhead: 256})
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range goldenFrames {
			if _, err := l.Append(f.kind, []byte(f.payload)); err != nil {
				t.Fatal(err)
			}
			switch i {
			case 0, 4:
				err = l.Sync()
			case 2:
				err = l.Roll()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
	for _, name := range goldenFiles {
		got := readFile(t, &m, filepath.Join(dir, name))
		golden := filepath.Join("testdata", "v1", name)
		if os.Getenv("MILLRACE_UPDATE") == "1" {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs:\ngot  %x\nwant %x", name, got, want)
		}
	}
}

// TestGoldenRead reads the golden segments with the log and, from FORMAT.md
// alone, by hand.
func TestGoldenRead(t *testing.T) {
	t.Parallel()
	d := t.TempDir()
	var byHand []goldenFrame
	for _, name := range goldenFiles {
		b, err := os.ReadFile(filepath.Join("testdata", "v1", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
		byHand = append(byHand, framesOf(t, b)...)
	}
	if !slices.Equal(byHand, goldenFrames) {
		t.Errorf("by hand: %v", byHand)
	}
	l, err := commitlog.Open(d, commitlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []goldenFrame
	for f, err := range l.Scan(0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, goldenFrame{f.Kind, string(f.Payload)})
	}
	if !slices.Equal(got, goldenFrames) {
		t.Errorf("got %v", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// framesOf reads a segment as FORMAT.md describes it.
func framesOf(t *testing.T, b []byte) []goldenFrame {
	t.Helper()
	le := binary.LittleEndian
	base := le.Uint64(b[16:])
	var out []goldenFrame
	for at := 64; at+32 <= len(b) && string(b[at:at+4]) == "MRF\x01"; {
		h := b[at : at+32]
		n := int(le.Uint32(h[4:]))
		payload := b[at+32 : at+32+n]
		if le.Uint64(h[16:]) != base+uint64(at-64) || frameSum(b, h, payload) != le.Uint32(h[8:]) {
			t.Fatalf("frame at %d: %x", at, h)
		}
		if h[13] == 1 {
			break
		}
		out = append(out, goldenFrame{h[12], string(payload)})
		at += (32 + n + 7) / 8 * 8
	}
	return out
}

// frameSum is a frame's checksum in a segment, as FORMAT.md describes it.
func frameSum(segment, header, payload []byte) uint32 {
	h := slices.Clone(header)
	clear(h[8:12])
	seed := binary.LittleEndian.Uint32(segment[12:])
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), append(h, payload...))
}
