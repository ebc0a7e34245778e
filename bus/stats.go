package bus

import (
	"sync/atomic"

	"millrace/bus/commitlog"
)

type counters struct {
	lostLinks, trimmed, cleaned, moved atomic.Int64
}

// Stats are counters since Open and present sizes, for whoever exports them.
type Stats struct {
	Log       commitlog.Stats
	DiskBytes int64 // the log takes
	LiveBytes int64 // of it still needed
	LostLinks int64 // links skipped because their event was deleted by force
	Trimmed   int64 // records that retention let go
	Cleaned   int64 // segments removed
	Moved     int64 // bytes copied forward by cleaning
}

// Stats returns the counters.
func (b *Bus) Stats() (Stats, error) {
	m, err := b.index.Meta()
	return Stats{
		Log: b.log.Stats(), DiskBytes: b.log.Size(), LiveBytes: m.Live,
		LostLinks: b.stats.lostLinks.Load(), Trimmed: b.stats.trimmed.Load(),
		Cleaned: b.stats.cleaned.Load(), Moved: b.stats.moved.Load(),
	}, err
}
