package vfs_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"millrace/bus/vfs"
)

func newRNG(a, b uint64) *rand.Rand { return rand.New(rand.NewPCG(a, b)) }

// outcomes crashes often and counts what describe says of the results.
func outcomes(m *vfs.Mem, describe func(*vfs.Mem) string) map[string]int {
	got := map[string]int{}
	for seed := range uint64(2000) {
		got[describe(m.Crash(newRNG(seed, 7)))]++
	}
	return got
}

func wantOutcomes(t *testing.T, got map[string]int, want ...string) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(got))
	slices.Sort(want)
	if !slices.Equal(keys, want) {
		t.Errorf("got %v, want %q", got, want)
	}
}

func TestCrashKeepsWhatIsSynced(t *testing.T) {
	t.Parallel()
	m := &vfs.Mem{}
	must(t, m.MkdirAll("/d"))
	file := create(t, m, "/d/f", "synced")
	must(t, file.Sync())
	must(t, m.SyncDir("/d"))
	wantOutcomes(t, outcomes(m, func(c *vfs.Mem) string { return read(t, c, "/d/f") }), "synced")
	if _, err := m.Lock("/d"); err != nil {
		t.Fatal(err)
	}
	if lock, err := m.Crash(newRNG(1, 1)).Lock("/d"); err != nil || lock == nil {
		t.Errorf("a crash frees locks: %v", err)
	}
}

func TestCrashNames(t *testing.T) {
	t.Parallel()
	list := func(c *vfs.Mem) string { return strings.Join(names(t, c, "/"), " ") }
	m := &vfs.Mem{}
	create(t, m, "/a", "")
	create(t, m, "/b", "")
	wantOutcomes(t, outcomes(m, list), "", "a", "b", "a b")
	must(t, m.SyncDir("/"))
	wantOutcomes(t, outcomes(m, list), "a b")
	must(t, m.Rename("/a", "/c")) // never both, never none
	wantOutcomes(t, outcomes(m, list), "a b", "b c")
	must(t, m.Remove("/b"))
	wantOutcomes(t, outcomes(m, list), "a b", "b c", "a", "c")
	must(t, m.SyncDir("/"))
	wantOutcomes(t, outcomes(m, list), "c")
}

func TestCrashContents(t *testing.T) {
	t.Parallel()
	m := &vfs.Mem{}
	page := func(c string) string { return strings.Repeat(c, 4096) }
	file := create(t, m, "/f", page("1")+page("1"))
	must(t, file.Sync())
	must(t, m.SyncDir("/"))
	write := func(s string, off int64) {
		_, err := file.WriteAt([]byte(s), off)
		must(t, err)
	}
	write(page("2")+page("2"), 0)
	seen := outcomes(m, func(c *vfs.Mem) string {
		got := read(t, c, "/f")
		if len(got) != 2*4096 {
			t.Fatalf("%d bytes", len(got))
		}
		kinds := ""
		for _, p := range []string{got[:4096], got[4096:]} {
			switch strings.Count(p, "2") {
			case 0:
				kinds += "old "
			case 4096:
				kinds += "new "
			default:
				kinds += "torn "
			}
			for at := 0; at < 4096; at += 512 { // a sector is never torn
				if s := p[at : at+512]; strings.Count(s, s[:1]) != 512 {
					t.Fatal("torn sector")
				}
			}
		}
		return kinds
	})
	wantOutcomes(t, seen, "old old ", "old new ", "old torn ", "new old ", "new new ", "new torn ", "torn old ", "torn new ", "torn torn ")

	// A later version of a page may be there without an earlier one of the next.
	must(t, file.Sync())
	write("a", 0)
	write("b", 0)
	write("c", 4096)
	seen = outcomes(m, func(c *vfs.Mem) string {
		got := read(t, c, "/f")
		return got[:1] + got[4096:4097]
	})
	wantOutcomes(t, seen, "22", "2c", "a2", "ac", "b2", "bc")
}

func TestCrashSize(t *testing.T) {
	t.Parallel()
	m := &vfs.Mem{}
	file := create(t, m, "/f", "1234")
	must(t, file.Sync())
	must(t, m.SyncDir("/"))
	must(t, file.Truncate(2))
	must(t, file.Truncate(3))
	_, err := file.WriteAt([]byte("x"), 5)
	must(t, err)
	wantOutcomes(t, outcomes(m, func(c *vfs.Mem) string {
		got := read(t, c, "/f")
		return fmt.Sprintf("%d%q", len(got), got)
	}), `2"12"`, `3"123"`, `3"12\x00"`, `4"1234"`, `4"12\x00\x00"`, `6"12\x00\x00\x00\x00"`, `6"12\x00\x00\x00x"`, `6"1234\x00\x00"`)
}

// TestLostSync fails a Sync: its contents can be read, and the next Sync does not
// make them durable.
func TestLostSync(t *testing.T) {
	t.Parallel()
	m := &vfs.Mem{}
	f := &vfs.Fault{FS: m}
	file := create(t, f, "/f", "old")
	must(t, file.Sync())
	must(t, f.SyncDir("/"))
	_, err := file.WriteAt([]byte("new"), 0)
	must(t, err)
	f.Fail = vfs.FailNth(f.Ops()+1, 0, syscall.EIO)
	is(t, file.Sync(), syscall.EIO)
	must(t, file.Sync())
	if got := read(t, f, "/f"); got != "new" {
		t.Fatalf("read %q", got)
	}
	wantOutcomes(t, outcomes(m, func(c *vfs.Mem) string { return read(t, c, "/f") }), "old")
	_, err = file.WriteAt([]byte("n"), 0) // dirty again, all of the page
	must(t, err)
	must(t, file.Sync())
	wantOutcomes(t, outcomes(m, func(c *vfs.Mem) string { return read(t, c, "/f") }), "new")
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	m := &vfs.Mem{}
	m.SetCapacity(3 * 4096)
	file := create(t, m, "/f", strings.Repeat("x", 4096))
	other := create(t, m, "/g", "y")
	n, err := file.WriteAt(make([]byte, 3*4096), 4000)
	if n != 96+4096 || !vfs.IsFull(err) {
		t.Fatalf("wrote %d: %v", n, err)
	}
	_, err = other.WriteAt([]byte("in its page"), 100)
	must(t, err)
	must(t, m.Remove("/g"))
	_, err = file.WriteAt(make([]byte, 4096), 2*4096)
	must(t, err)
	if _, err = m.Crash(newRNG(1, 1)).List("/"); err != nil {
		t.Fatal(err)
	}
}

// TestFault fails each of a row of operations in turn.
func TestFault(t *testing.T) {
	t.Parallel()
	calls := func(f vfs.FS) error {
		if err := f.MkdirAll("/d"); err != nil {
			return err
		}
		lock, err := f.Lock("/d")
		if err != nil {
			return err
		}
		defer lock.Close()
		file, err := f.Create("/d/f")
		if err != nil {
			return err
		}
		_, err = file.WriteAt([]byte("12345"), 0)
		if err == nil {
			err = file.Truncate(4)
		}
		if err == nil {
			_, err = file.Size()
		}
		if err == nil {
			_, err = file.ReadAt(make([]byte, 1), 0)
		}
		if err == nil {
			err = file.Sync()
		}
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
		if err == nil {
			err = f.Rename("/d/f", "/d/g")
		}
		if err == nil {
			_, err = f.List("/d")
		}
		if err == nil {
			if file, err = f.Open("/d/g"); err == nil {
				err = file.Close()
			}
		}
		if err == nil {
			err = f.Remove("/d/g")
		}
		if err == nil {
			err = f.SyncDir("/d")
		}
		return err
	}
	var kinds []vfs.OpKind
	f := &vfs.Fault{FS: &vfs.Mem{}, After: func(op vfs.Op) { kinds = append(kinds, op.Kind) }}
	must(t, calls(f))
	if all := slices.Compact(slices.Sorted(slices.Values(kinds))); len(all) != 14 || f.Ops() != int64(len(kinds)) {
		t.Fatalf("%d operations of kinds %v", f.Ops(), all)
	}
	for n := int64(1); n < f.Ops(); n++ { // the last is the Close of the lock
		m := &vfs.Mem{}
		is(t, calls(&vfs.Fault{FS: m, Fail: vfs.FailNth(n, 3, syscall.EIO)}), syscall.EIO)
		if m.OpenFiles() != 0 {
			t.Errorf("operation %d: %d files left open", n, m.OpenFiles())
		}
		if kinds[n-1] == vfs.OpWriteAt {
			if got := read(t, m, "/d/f"); got != "123" {
				t.Errorf("a partial write left %q", got)
			}
		}
	}
}
