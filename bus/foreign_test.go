package bus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"millrace/bus/event"
)

// TestViewsOfAnotherLog puts the views of one data directory beside the log of
// another, of the same shape: they are thrown away.
func TestViewsOfAnotherLog(t *testing.T) {
	t.Parallel()
	var dirs [2]string
	var want string
	for i := range dirs {
		b, dir := openTemp(t, Options{CleanEvery: -1})
		dirs[i] = dir
		mustCreate(t, b, Topic{Name: "t"})
		for n := range 10 * (2 - i) {
			mustAppend(t, b, Batch{Writes: []Write{{Topic: "t", Events: []event.Event{ev(fmt.Sprint("e", n), "", strconv.Itoa(i))}}}})
		}
		if i == 0 {
			want = dump(t, b)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	views := filepath.Join(dirs[0], "views")
	if err := os.RemoveAll(views); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(views, os.DirFS(filepath.Join(dirs[1], "views"))); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dirs[0], Options{CleanEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	if got := dump(t, b); got != want {
		t.Errorf("views of another log were kept:\n%s\nwant\n%s", got, want)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMissingSegment removes a segment from between two others: what stood there
// had been acknowledged, so the log is refused with the name of what is missing.
func TestMissingSegment(t *testing.T) {
	t.Parallel()
	o := Options{CleanEvery: -1, SegmentBytes: 16 << 10}
	b, dir := openTemp(t, o)
	mustCreate(t, b, Topic{Name: "t"})
	for n := range 100 {
		mustAppend(t, b, Batch{Writes: []Write{{Topic: "t", Events: []event.Event{ev(fmt.Sprint("e", n), "", fmt.Sprintf(`"%01000d"`, n))}}}})
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	segs, err := filepath.Glob(filepath.Join(dir, "log", "*.seg"))
	if err != nil || len(segs) < 4 {
		t.Fatalf("%d segments, %v", len(segs), err)
	}
	if err := os.Remove(segs[1]); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(dir, o); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), segs[1]) {
		t.Fatalf("with %s missing: %v", segs[1], err)
	}
}
