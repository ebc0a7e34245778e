package vfs

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
	"time"
)

const (
	pageSize   = 4096
	sectorSize = 512
	// maxVersions bounds what is remembered of a page that is written again and
	// again without a Sync; versions between the oldest and the newest are forgotten.
	maxVersions = 16
)

// inode is a file: pages by number, and sizes. A missing page is zero.
type inode struct {
	pages       map[int64]*page
	size        int64
	durableSize int64
	sizes       []int64 // since the last Sync, oldest first
	modified    time.Time
}

// page is 4 KiB of a file: its contents now, what the disk surely has, and the
// contents it had since the last Sync, oldest first, ending with now. A nil
// slice is zeros. The slices are never changed, so that copies share them.
type page struct {
	now, durable []byte
	versions     [][]byte
}

func (p *page) set(b []byte) {
	p.now = b
	if len(p.versions) == maxVersions {
		p.versions = append(p.versions[:maxVersions/2], p.versions[maxVersions/2+1:]...)
	}
	p.versions = append(p.versions, b)
}

func (n *inode) setSize(size int64) {
	if size == n.size {
		return
	}
	n.size = size
	n.sizes = append(n.sizes, size)
}

// patch writes b at off within page number i.
func (n *inode) patch(i int64, off int, b []byte) {
	p := n.pages[i]
	if p == nil {
		p = &page{}
		n.pages[i] = p
	}
	next := make([]byte, pageSize)
	copy(next, p.now)
	copy(next[off:], b)
	p.set(next)
}

func (n *inode) truncate(size int64) {
	for i, p := range n.pages {
		keep := size - i*pageSize
		switch {
		case keep >= pageSize || p.now == nil:
		case keep <= 0:
			p.set(nil)
		default:
			n.patch(i, int(keep), make([]byte, pageSize-keep))
		}
	}
	n.setSize(size)
}

func (n *inode) sync() {
	for _, p := range n.pages {
		if len(p.versions) > 0 {
			p.durable, p.versions = p.now, nil
		}
	}
	n.durableSize, n.sizes = n.size, nil
}

// memFile is a handle on an inode; fs.mu guards it.
type memFile struct {
	fs     *Mem
	node   *inode
	name   string
	closed bool
}

func (f *memFile) check(op string) error {
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	return nil
}

// ReadAt reads at off; io.EOF past the end.
func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("read"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, errors.New("negative offset"))
	}
	n := max(0, min(int64(len(b)), f.node.size-off))
	for done := int64(0); done < n; {
		i, in := (off+done)/pageSize, (off+done)%pageSize
		part := b[done:min(n, done+pageSize-in)]
		clear(part)
		if p := f.node.pages[i]; p != nil && p.now != nil {
			copy(part, p.now[in:])
		}
		done += int64(len(part))
	}
	if n < int64(len(b)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// WriteAt writes at off; ENOSPC after as much as the capacity allows.
func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("write"); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("write", f.name, errors.New("negative offset"))
	}
	room := f.fs.room()
	done := 0
	for done < len(b) {
		at := off + int64(done)
		i, in := at/pageSize, int(at%pageSize)
		if f.node.pages[i] == nil {
			if room <= 0 {
				return done, pathError("write", f.name, syscall.ENOSPC)
			}
			room--
		}
		part := b[done:min(len(b), done+pageSize-in)]
		f.node.patch(i, in, part)
		done += len(part)
		f.node.setSize(max(f.node.size, at+int64(len(part))))
	}
	f.node.modified = time.Now()
	return done, nil
}

// Sync makes contents and size durable.
func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("sync"); err != nil {
		return err
	}
	f.node.sync()
	return nil
}

// loseSync does what a system does whose Sync failed: all that was written
// since the last one is forgotten to be unwritten, stays readable, and a later
// Sync will not write it.
func (f *memFile) loseSync() {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	for _, p := range f.node.pages {
		p.versions = nil
	}
}

// Truncate sets the size.
func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("truncate"); err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, errors.New("negative size"))
	}
	f.node.truncate(size)
	f.node.modified = time.Now()
	return nil
}

// Size returns the size in bytes.
func (f *memFile) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.node.size, f.check("size")
}

// Close frees the handle.
func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("close"); err != nil {
		return err
	}
	f.closed = true
	f.fs.open--
	return nil
}
