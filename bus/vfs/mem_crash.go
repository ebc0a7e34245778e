package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash returns a file system as the disk might be found after the power went
// now; m goes on unharmed. What was synced is there. Of what was not:
//
//   - each page of 4 KiB independently holds any of the contents it had since the
//     last Sync or before it, whole or torn at sectors of 512 bytes;
//   - a file has any of the sizes it had since the last Sync, or before it;
//   - each creation, renaming and removal since the last SyncDir independently
//     happened or did not.
//
// The same rng and history give the same result.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Mem{dirs: map[string]*memDir{}, capacity: m.capacity}
	nodes := map[*inode]*inode{}
	for _, path := range slices.Sorted(maps.Keys(m.dirs)) {
		d := m.dirs[path]
		entries := maps.Clone(d.durable)
		fate := pickFate(rng)
		for _, change := range d.pending {
			if !fate.keep(rng) {
				continue
			}
			if change.gone != "" {
				delete(entries, change.gone)
			}
			if change.added != "" {
				entries[change.added] = change.node
			}
		}
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			n := entries[name]
			if nodes[n] == nil {
				nodes[n] = n.crash(rng)
			}
			entries[name] = nodes[n]
		}
		c.dirs[path] = &memDir{now: entries, durable: maps.Clone(entries)}
	}
	return c
}

// fate is how one crash treats what is unsynced in one file or directory: all
// lost, all kept, or each by chance. Chance alone would hardly ever make the
// first two, which matter as much.
type fate int

func pickFate(rng *rand.Rand) fate { return fate(rng.IntN(5)) }

func (f fate) keep(rng *rand.Rand) bool {
	switch f {
	case 0:
		return false
	case 1:
		return true
	}
	return rng.IntN(2) == 0
}

func (n *inode) crash(rng *rand.Rand) *inode {
	fate := pickFate(rng)
	size := n.durableSize
	if len(n.sizes) > 0 && fate.keep(rng) {
		size = n.sizes[len(n.sizes)-1]
		if fate > 1 {
			size = n.sizes[rng.IntN(len(n.sizes))]
		}
	}
	c := &inode{pages: map[int64]*page{}, size: size, durableSize: size, modified: n.modified}
	for _, i := range slices.Sorted(maps.Keys(n.pages)) {
		b := n.pages[i].crash(rng, fate)
		if i*pageSize < size && b != nil {
			c.pages[i] = &page{now: b, durable: b}
		}
	}
	// What lies beyond the size is zero when the file grows again.
	if last := c.pages[size/pageSize]; last != nil {
		b := make([]byte, pageSize)
		copy(b, last.now[:size%pageSize])
		last.now, last.durable = b, b
	}
	return c
}

// crash returns what the disk holds of a page.
func (p *page) crash(rng *rand.Rand, f fate) []byte {
	if len(p.versions) == 0 || !f.keep(rng) {
		return p.durable
	}
	if f == 1 {
		return p.now
	}
	pick := func() []byte {
		if i := rng.IntN(len(p.versions) + 1); i > 0 {
			return p.versions[i-1]
		}
		return p.durable
	}
	b := make([]byte, pageSize)
	copy(b, pick())
	switch rng.IntN(3) {
	case 0: // whole
	case 1: // a prefix of sectors is of another version
		other := zeroIfNil(pick())
		copy(b[:sectorSize*rng.IntN(pageSize/sectorSize)], other)
	case 2: // every sector for itself
		for at := 0; at < pageSize; at += sectorSize {
			copy(b[at:at+sectorSize], zeroIfNil(pick())[at:])
		}
	}
	return b
}

func zeroIfNil(b []byte) []byte {
	if b == nil {
		return make([]byte, pageSize)
	}
	return b
}
