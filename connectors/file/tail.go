package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"millrace/connectors"
)

// chunkBytes is how much is read from a file at once. The events' data are slices
// of it, so a line costs no copy.
const chunkBytes = 256 << 10

// rawBytes is how much of an input that is too long goes into its failure.
const rawBytes = 64 << 10

// tail is a file of lines being read.
type tail struct {
	name   string // path under which it was first seen: for origins, source and partition
	path   string // where it is now
	inode  inode
	gen    int    // truncations so far
	id     string // identity of inode and gen
	lines  *lines
	f      *os.File // nil while nothing is read
	offset int64    // of the next line
	line   int64    // lines before offset
	print  fingerprint
	rest   []byte    // what was read but not yet used, beginning at offset
	asleep bool      // the last look found nothing new: check the fingerprint before reading on
	size   int64     // at the last look
	skip   int64     // where to go on looking for the end of a line that is too long; 0 = there is none
	head   []byte    // the beginning of that line
	moved  time.Time // when the last line came
	lost   time.Time // since when no name matches; zero while one does
	done   bool      // there will be no more
}

// tailPosition is the stored position in a file of lines.
type tailPosition struct {
	Offset      int64  `json:"offset"`
	Line        int64  `json:"line"`
	Fingerprint string `json:"fingerprint"`
	Inode       string `json:"inode"`
	Generation  int    `json:"generation"`
}

type storedTail struct {
	partition partition
	position  tailPosition
}

func (t *tail) partition() partition { return partition{File: t.name, ID: t.id} }

func (t *tail) position() json.RawMessage {
	b, err := json.Marshal(tailPosition{Offset: t.offset, Line: t.line, Fingerprint: t.print.String(), Inode: t.inode.String(), Generation: t.gen})
	if err != nil {
		return nil // plain numbers and text always marshal
	}
	return b
}

// fileSource is the CloudEvents source of a path.
func fileSource(path string) string {
	return "/files" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
}

// seeTail notes that a path leads to a file now.
func (s *source) seeTail(path string, id inode) {
	t := s.tails[id]
	if t == nil {
		t = s.newTail(path, id)
		s.tails[id] = t
	}
	t.path, t.lost = path, time.Time{}
}

func (s *source) newTail(path string, id inode) *tail {
	t := &tail{name: path, path: path, inode: id, asleep: true, size: -1, moved: time.Now()}
	if st, ok := s.stored[id]; ok {
		p := st.position
		t.name, t.gen, t.offset, t.line, t.print = st.partition.File, p.Generation, max(p.Offset, 0), p.Line, parseFingerprint(p.Fingerprint)
		delete(s.stored, id)
	}
	t.id = id.identity(t.gen)
	t.lines = s.newLines(t)
	return t
}

// findRotated looks for files that have a stored position but no name that
// matches: renamed while nobody looked. They are read to their ends; where there
// is no such file any more its position is forgotten.
func (s *source) findRotated(b *batch) {
	dirs := map[string]map[inode]string{}
	for id, st := range s.stored {
		dir := filepath.Dir(st.partition.File)
		if !matches(s.pattern, st.partition.File) {
			continue // of an earlier path of this connector
		}
		if dirs[dir] == nil {
			dirs[dir] = inodesIn(dir)
		}
		if path, ok := dirs[dir][id]; ok {
			t := s.newTail(path, id)
			t.lost = time.Now()
			s.tails[id] = t
			continue
		}
		b.move(st.partition, nil)
		delete(s.stored, id)
	}
}

func inodesIn(dir string) map[inode]string {
	found := map[inode]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return found
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if id, err := inodeOf(path); err == nil {
			found[id] = path
		}
	}
	return found
}

// readTail reads lines until there are no more or the answer is full.
func (s *source) readTail(ctx context.Context, t *tail, b *batch) error {
	if t.done {
		return nil
	}
	start, gen := t.offset, t.gen
	ended, err := s.readLines(ctx, t, b)
	if t.offset != start || t.gen != gen {
		t.moved = time.Now()
		if t.print.length < fingerprintBytes && t.f != nil {
			now, terr := take(t.f, t.offset)
			if terr != nil {
				return errors.Join(err, terr)
			}
			t.print = now
		}
		b.move(t.partition(), t.position())
	}
	if err != nil || !ended {
		return err
	}
	if s.last(t) {
		s.retire(t, b)
	} else if s.open > maxOpenFiles && t.lost.IsZero() {
		s.shut(t)
	}
	return nil
}

// readLines reports whether it came to the end of what there is.
func (s *source) readLines(ctx context.Context, t *tail, b *batch) (ended bool, err error) {
	for !b.full() {
		line, n, err := s.next(ctx, t, b)
		if err != nil || n == 0 {
			return err == nil, err
		}
		var bad error
		if line == nil {
			bad = fmt.Errorf("longer than max.line.bytes (%d)", int64(s.cfg.MaxLine))
			line, t.head, t.rest = t.head, nil, nil
		} else {
			t.rest = t.rest[n:]
			bad = t.lines.add(line, t.offset, b)
		}
		if bad != nil {
			b.fail(connectors.BadInput{
				Origin: fmt.Sprintf("%s:%d", t.name, t.line+1),
				Raw:    bytes.Clone(line[:min(len(line), rawBytes)]), Err: bad,
			})
		}
		t.offset += int64(n)
		t.line += t.lines.Count(line)
	}
	return false, nil
}

// next returns the next line, with its end, and how many bytes it takes; 0 when
// there is none yet. A nil line is one that is too long.
func (s *source) next(ctx context.Context, t *tail, b *batch) (line []byte, n int, err error) {
	limit := int(s.cfg.MaxLine)
	for t.skip == 0 {
		n := t.lines.Split(t.rest, false)
		if n == 0 && len(t.rest) > limit {
			if n = t.lines.Split(t.rest, true); n == len(t.rest) {
				t.head = bytes.Clone(t.rest[:min(len(t.rest), rawBytes)])
				t.skip, t.rest = t.offset+int64(n), nil
				break
			}
		}
		if n > limit+len("\r\n") {
			t.head = bytes.Clone(t.rest[:min(n, rawBytes)])
			t.rest = nil
			return nil, n, nil
		}
		if n > 0 {
			return t.rest[:n], n, nil
		}
		more, err := s.fill(t, b)
		if err != nil {
			return nil, 0, err
		}
		if !more {
			if len(t.rest) == 0 || !s.last(t) {
				return nil, 0, nil
			}
			n = t.lines.Split(t.rest, true)
			return t.rest[:n], n, nil
		}
	}
	n, err = s.skipLong(ctx, t, b)
	return nil, n, err
}

// skipLong looks for the end of a line that is too long to keep; 0 when it has
// not come yet.
func (s *source) skipLong(ctx context.Context, t *tail, b *batch) (int, error) {
	buf := make([]byte, chunkBytes)
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if more, err := s.look(t, b, t.skip); err != nil || t.skip == 0 { // 0: truncated meanwhile
			return 0, err
		} else if !more && !s.last(t) {
			return 0, nil
		}
		n, err := t.f.ReadAt(buf, t.skip)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		end := bytes.IndexByte(buf[:n], '\n') + 1
		if end == 0 && n > 0 {
			t.skip += int64(n)
			continue
		}
		length := t.skip + int64(end) - t.offset
		t.skip = 0
		return int(length), nil
	}
}

// fill makes t.rest longer if the file has more.
func (s *source) fill(t *tail, b *batch) (bool, error) {
	if t.f == nil && t.asleep && s.cfg.Follow && t.lost.IsZero() {
		if info, err := os.Stat(t.path); err == nil && info.Size() == t.size {
			return false, nil
		}
	}
	more, err := s.look(t, b, t.offset+int64(len(t.rest)))
	if err != nil || !more {
		return false, err
	}
	want := min(max(chunkBytes, 2*len(t.rest)), int(s.cfg.MaxLine)+chunkBytes)
	buf := make([]byte, min(int64(want), t.size-t.offset))
	n, err := t.f.ReadAt(buf, t.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	more = n > len(t.rest)
	t.rest = buf[:n:n]
	return more, nil
}

// look reports whether the file has bytes beyond end, opening it when it is shut. A
// file that turns out to be another one, or cut shorter, begins anew.
func (s *source) look(t *tail, b *batch, end int64) (bool, error) {
	if t.f == nil {
		if err := s.openTail(t); err != nil || t.f == nil {
			return false, err
		}
	}
	info, err := t.f.Stat()
	if err != nil {
		return false, err
	}
	t.size = info.Size()
	if t.size < end {
		s.restart(t, b)
		end = 0
	}
	if t.size <= end {
		t.asleep = true
		return false, nil
	}
	if t.asleep {
		same, err := t.print.of(t.f)
		if err != nil {
			return false, err
		}
		if !same {
			s.restart(t, b)
		}
		t.asleep = false
	}
	return true, nil
}

// openTail opens the file wherever it is now. Where it is nowhere t stays shut and
// is done with.
func (s *source) openTail(t *tail) error {
	f, err := os.Open(t.path)
	if err == nil {
		if id, ierr := inodeOfFile(f); ierr != nil || id != t.inode {
			err = errors.Join(f.Close(), ierr, fs.ErrNotExist)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		path, ok := inodesIn(filepath.Dir(t.path))[t.inode]
		if !ok {
			t.done, t.lost = true, time.Now()
			if t.size > t.offset {
				s.log.Warn("file was deleted before it was read to its end", "path", t.name, "read", t.offset, "size", t.size)
			}
			return nil
		}
		t.path = path
		f, err = os.Open(path)
	}
	if err != nil {
		return err
	}
	t.f = f
	s.open++
	delete(s.failed, t.name)
	if t.offset > 0 {
		return t.lines.resume(f)
	}
	return nil
}

func (s *source) shut(t *tail) {
	if t.f != nil {
		_ = t.f.Close() // it was only read
		t.f, t.rest = nil, nil
		s.open--
	}
}

// restart begins a truncated file anew, as another identity.
func (s *source) restart(t *tail, b *batch) {
	b.move(t.partition(), nil)
	t.gen++
	t.id = t.inode.identity(t.gen)
	t.offset, t.line, t.print, t.rest, t.skip, t.head = 0, 0, fingerprint{}, nil, 0, nil
	t.lines = s.newLines(t)
}

// last reports whether nothing more will be written to the file as far as this
// source is concerned.
func (s *source) last(t *tail) bool {
	switch {
	case !s.cfg.Follow || t.done:
		return true
	case t.lost.IsZero():
		return false
	case t.f != nil && unlinked(t.f):
		return true
	default:
		return time.Since(t.lost) > rotatedIdle && time.Since(t.moved) > rotatedIdle
	}
}

// retire ends a file that was read to its end. Where no name matches any more its
// position is forgotten.
func (s *source) retire(t *tail, b *batch) {
	t.done = true
	s.shut(t)
	if !t.lost.IsZero() {
		b.move(t.partition(), nil)
		delete(s.tails, t.inode)
	}
}
