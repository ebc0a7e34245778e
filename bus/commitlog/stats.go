package commitlog

import (
	"sync/atomic"
	"time"
)

// Stats counts what a log did since it was opened.
type Stats struct {
	Appends   int64 // frames
	Bytes     int64 // of those frames, with headers
	Syncs     int64
	SyncTime  time.Duration // in all Syncs together
	Rolls     int64
	Removes   int64 // segments
	Full      int64 // times that there was no space
	HotReads  int64 // from memory
	ColdReads int64 // from a file
	HotBytes  int64 // in memory now
}

type counters struct {
	appends, bytes, syncs, syncNanos atomic.Int64
	rolls, removes, full             atomic.Int64
	hotReads, coldReads              atomic.Int64
}

// Stats returns the counters.
func (l *Log) Stats() Stats {
	c := &l.count
	return Stats{
		Appends:   c.appends.Load(),
		Bytes:     c.bytes.Load(),
		Syncs:     c.syncs.Load(),
		SyncTime:  time.Duration(c.syncNanos.Load()),
		Rolls:     c.rolls.Load(),
		Removes:   c.removes.Load(),
		Full:      c.full.Load(),
		HotReads:  c.hotReads.Load(),
		ColdReads: c.coldReads.Load(),
		HotBytes:  l.hot.size(),
	}
}
