package commitlog_test

import (
	"math/rand/v2"
	"syscall"
	"testing"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

// TestHeaderNotSynced makes the sync of the first segment's header fail, and all
// else until the log is opened again. The header can be read then and yet is not
// on the disk; a crash that keeps some of what was written behind it must not
// leave a log that cannot be opened.
func TestHeaderNotSynced(t *testing.T) {
	t.Parallel()
	mem, down := new(vfs.Mem), false
	fault := &vfs.Fault{FS: mem, Fail: func(op vfs.Op) (int, error) {
		if down = down || op.Kind == vfs.OpSync; down {
			return 0, syscall.EIO
		}
		return 0, nil
	}}
	if _, err := commitlog.Open(dir, commitlog.Options{FS: fault}); err == nil {
		t.Fatal("the failed sync did not surface")
	}
	l, err := commitlog.Open(dir, commitlog.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, 40<<10)
	for i := range payload {
		payload[i] = 'x'
	}
	if _, err := l.Append(1, payload); err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(50) {
		c, err := commitlog.Open(dir, commitlog.Options{FS: mem.Crash(rand.New(rand.NewPCG(seed, 0)))})
		if err != nil {
			t.Fatalf("seed %d: after a crash: %v", seed, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
