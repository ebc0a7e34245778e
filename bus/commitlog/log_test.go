package commitlog_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

func TestPositions(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	l := open(t, commitlog.Options{FS: &m, HotBytes: -1})
	if l.First() != 0 || l.End() != 0 || l.Synced() != 0 {
		t.Fatalf("new log: [%d, %d), synced %d", l.First(), l.End(), l.Synced())
	}
	a := add(t, l, 1, "")
	b := add(t, l, 2, "x")
	c := add(t, l, 3, "12345678")
	if a != 0 || b != 32 || c != 72 || l.End() != 112 {
		t.Fatalf("positions %d %d %d, end %d", a, b, c, l.End())
	}
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	if err := l.Roll(); err != nil { // an empty segment is not sealed
		t.Fatal(err)
	}
	if d := add(t, l, 4, "d"); d != 112 {
		t.Fatalf("after rolling: %d", d)
	}
	for pos := commitlog.Position(0); pos < l.End(); { // frames follow each other over segments
		f, err := l.Read(pos)
		if err != nil || f.Pos != pos {
			t.Fatal(f, err)
		}
		pos = f.Next
	}
	segs := l.Segments()
	if len(segs) != 2 || !segs[0].Sealed || segs[1].Sealed || segs[0].End != 112 || segs[1].Base != 112 ||
		segs[1].End != 152 || segs[0].Bytes != 64+112+32 || l.Size() != segs[0].Bytes+segs[1].Bytes {
		t.Fatalf("%+v", segs)
	}
	if segs[0].Modified.IsZero() || segs[1].Modified.Before(segs[0].Modified) {
		t.Fatalf("times: %+v", segs)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	l, err := commitlog.Open(dir, commitlog.Options{FS: &m, MaxFrame: 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := commitlog.Open(dir, commitlog.Options{FS: &m}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second open: %v", err)
	}
	if _, err := l.Append(0, make([]byte, 11)); !errors.Is(err, commitlog.ErrFrameTooLarge) {
		t.Errorf("large frame: %v", err)
	}
	add(t, l, 0, "0123456789")
	if err := l.Remove(0); !errors.Is(err, commitlog.ErrNotFound) {
		t.Errorf("remove the segment being written: %v", err)
	}
	if _, err := l.Append(0, nil); err != nil {
		t.Error(err)
	}
	for _, pos := range []commitlog.Position{1, 33, 48, 80, 1 << 40} {
		_, err := l.Read(pos)
		want := commitlog.ErrNotFound
		if _, corrupt := errors.AsType[*commitlog.CorruptError](err); !errors.Is(err, want) && !corrupt {
			t.Errorf("read at %d: %v", pos, err)
		}
	}
	if _, err := l.Read(48); !errors.Is(err, commitlog.ErrNotFound) {
		t.Errorf("read of an unsynced frame: %v", err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	_, appendErr := l.Append(0, nil)
	_, readErr := l.Read(0)
	errs := []error{appendErr, readErr, l.Flush(), l.Sync(), l.Roll(), l.Remove(0)}
	for _, err := range l.Scan(0) {
		errs = append(errs, err)
	}
	for i, err := range errs {
		if !errors.Is(err, commitlog.ErrClosed) {
			t.Errorf("call %d after close: %v", i, err)
		}
	}
	if m.OpenFiles() != 0 {
		t.Errorf("%d files left open", m.OpenFiles())
	}
	for _, o := range []commitlog.Options{{SegmentBytes: -1}, {ZeroAhead: -1}, {MaxFrame: -1}, {MaxFrame: 1 << 31}} {
		o.FS = &vfs.Mem{}
		if _, err := commitlog.Open(dir, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	o := commitlog.Options{SegmentBytes: 4096, ZeroAhead: 1024}
	d := t.TempDir() + "/a/b"
	var want []string
	for round := range 4 {
		l, err := commitlog.Open(d, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := payloads(t, l, 0); !slices.Equal(got, want) {
			t.Fatalf("round %d: %d frames, want %d", round, len(got), len(want))
		}
		for i := range 50 {
			p := strings.Repeat("p", i*9)
			add(t, l, 0, p)
			want = append(want, p)
		}
		unsynced := "closing syncs"
		if _, err := l.Append(0, []byte(unsynced)); err != nil {
			t.Fatal(err)
		}
		want = append(want, unsynced)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRemoveLeavesHoles(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	o := commitlog.Options{FS: &m}
	l := open(t, o)
	var at []commitlog.Position
	for i := range 5 {
		at = append(at, add(t, l, 0, strconv.Itoa(i)))
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(l *commitlog.Log, want ...string) {
		t.Helper()
		if got := payloads(t, l, 0); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	for _, i := range []int{2, 4, 0} { // hot frames go too
		if err := l.Remove(at[i]); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Read(at[i]); !errors.Is(err, commitlog.ErrNotFound) {
			t.Fatalf("read in a removed segment: %v", err)
		}
		if err := l.Remove(at[i]); !errors.Is(err, commitlog.ErrNotFound) {
			t.Fatalf("remove again: %v", err)
		}
	}
	check(l, "1", "3")
	if l.First() != at[1] {
		t.Fatalf("first: %d", l.First())
	}
	if got := payloads(t, l, at[2]); !slices.Equal(got, []string{"3"}) {
		t.Fatalf("from a hole: %v", got)
	}
	end := l.End()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, o)
	check(l, "1", "3")
	if l.End() != end {
		t.Fatalf("end moved from %d to %d", end, l.End())
	}
	add(t, l, 0, "5")
	check(l, "1", "3", "5")
}

// TestScanFrom begins at any position, frame or not.
func TestScanFrom(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var m vfs.Mem
		l, err := commitlog.Open(dir, commitlog.Options{FS: &m, SegmentBytes: 3000, ZeroAhead: 100})
		if err != nil {
			rt.Fatal(err)
		}
		var positions []commitlog.Position
		for _, size := range rapid.SliceOf(rapid.IntRange(0, 1500)).Draw(rt, "sizes") {
			pos, err := l.Append(0, make([]byte, size))
			if err != nil {
				rt.Fatal(err)
			}
			positions = append(positions, pos)
		}
		if err := l.Sync(); err != nil {
			rt.Fatal(err)
		}
		from := commitlog.Position(rapid.Uint64Range(0, uint64(l.End())+10).Draw(rt, "from"))
		var got []commitlog.Position
		for f, err := range l.Scan(from) {
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, f.Pos)
		}
		want := slices.DeleteFunc(positions, func(p commitlog.Position) bool { return p < from })
		if !slices.Equal(got, want) {
			rt.Fatalf("from %d: got %v, want %v", from, got, want)
		}
		if err := l.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestHotIsBounded(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	l := open(t, commitlog.Options{FS: &m, HotBytes: 1000})
	var at []commitlog.Position
	for i := range 100 {
		at = append(at, add(t, l, 0, strings.Repeat("h", i)))
		if hot := l.Stats().HotBytes; hot > 1000 {
			t.Fatalf("%d bytes kept", hot)
		}
	}
	for i, pos := range at {
		f, err := l.Read(pos)
		if err != nil || len(f.Payload) != i {
			t.Fatal(f, err)
		}
	}
	s := l.Stats()
	if s.HotReads == 0 || s.ColdReads == 0 || s.HotReads+s.ColdReads != 100 || s.Appends != 100 || s.Syncs != 100 {
		t.Fatalf("%+v", s)
	}
}

// TestOpenFiles reads from more segments than may be open.
func TestOpenFiles(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	l := open(t, commitlog.Options{FS: &m, HotBytes: -1})
	const n = 300
	for i := range n {
		add(t, l, 0, strconv.Itoa(i))
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if got := payloads(t, l, 0); len(got) != n || got[n-1] != strconv.Itoa(n-1) {
			t.Fatalf("%d frames", len(got))
		}
		if files := m.OpenFiles(); files > 130 {
			t.Fatalf("%d files open", files)
		}
	}
}

// TestFull fills the disk and frees some of it again.
func TestFull(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	m.SetCapacity(64 << 10)
	o := commitlog.Options{FS: &m, SegmentBytes: 16 << 10, ZeroAhead: 8 << 10}
	l := open(t, o)
	var want []string
	fill := func() {
		for i := 0; ; i++ {
			p := strings.Repeat(strconv.Itoa(i%10), 900)
			end := l.End()
			_, err := l.Append(0, []byte(p))
			switch {
			case errors.Is(err, commitlog.ErrFull):
				if l.End() != end || i == 0 {
					t.Fatalf("full after %d frames, end moved from %d to %d", i, end, l.End())
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			want = append(want, p)
		}
	}
	fill()
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(0, make([]byte, 9000)); !errors.Is(err, commitlog.ErrFull) {
		t.Fatalf("still full: %v", err)
	}
	if got := payloads(t, l, 0); !slices.Equal(got, want) {
		t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	removed := l.Segments()[0]
	gone := 0
	for range l.Scan(0) {
		if gone++; commitlog.Position(gone)*936 == removed.End {
			break
		}
	}
	if err := l.Remove(removed.Base); err != nil {
		t.Fatal(err)
	}
	want = want[gone:]
	fill()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, o)
	if got := payloads(t, l, 0); !slices.Equal(got, want) {
		t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	if l.Stats().Full != 0 {
		t.Fatal("counted as full after reopening")
	}
}

// TestFlush looks at what another process would find when this one is killed.
func TestFlush(t *testing.T) {
	t.Parallel()
	var m vfs.Mem
	l := open(t, commitlog.Options{FS: &m})
	survivors := func() []string {
		return payloads(t, open(t, commitlog.Options{FS: copyDir(t, &m)}), 0)
	}
	pos, err := l.Append(0, []byte("async"))
	if err != nil {
		t.Fatal(err)
	}
	if got := survivors(); len(got) != 0 {
		t.Fatalf("before: %q", got)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := survivors(); !slices.Equal(got, []string{"async"}) {
		t.Fatalf("after: %q", got)
	}
	if _, err := l.Read(pos); !errors.Is(err, commitlog.ErrNotFound) { // Invariant 1
		t.Fatalf("read before it is synced: %v", err)
	}
}
