package bus_test

import (
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"millrace/bus"
	"millrace/bus/bustest"
	"millrace/bus/vfs"
)

// TestClient runs the conformance suite on the built-in engine in memory.
func TestClient(t *testing.T) {
	t.Parallel()
	bustest.Run(t, openMem)
}

// openMem opens a bus on disks in memory, with everything that waits made short.
func openMem(t *testing.T) bustest.Harness {
	t.Helper()
	o := bus.Options{
		FS: new(vfs.Mem), ViewsFS: pebblevfs.NewMem(),
		SegmentBytes: 1 << 20, MaxEvent: 1 << 20, SyncInterval: 20 * time.Millisecond,
		CleanEvery: 20 * time.Millisecond, Lease: 3 * time.Second,
	}
	var b *bus.Bus
	open := func(t *testing.T) bus.Client {
		t.Helper()
		if b != nil {
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if b, err = bus.Open("data", o); err != nil {
			t.Fatal(err)
		}
		return b
	}
	h := bustest.Harness{Client: open(t), Reopen: open, Lease: o.Lease, MaxEvent: int(o.MaxEvent)}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}
