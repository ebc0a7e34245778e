package commitlog_test

import (
	"testing"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

func TestSmoke(t *testing.T) {
	var m vfs.Mem
	l, err := commitlog.Open("/d/log", commitlog.Options{FS: &m, SegmentBytes: 1000, ZeroAhead: 512, HotBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		p, err := l.Append(byte(i), make([]byte, i))
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		f, err := l.Read(p)
		if err != nil || len(f.Payload) != i {
			t.Fatal(f, err)
		}
	}
	for range 2 {
		n := 0
		for f, err := range l.Scan(0) {
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Payload) != n || f.Kind != byte(n) {
				t.Fatal(n, f)
			}
			n++
		}
		if n != 100 {
			t.Fatal(n)
		}
		t.Log(l.Segments(), l.Stats())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, err = commitlog.Open("/d/log", commitlog.Options{FS: &m, SegmentBytes: 1000, ZeroAhead: 512, HotBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	if m.OpenFiles() != 0 {
		t.Fatal(m.OpenFiles())
	}
}
