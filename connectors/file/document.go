package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"millrace/bus/event"
	"millrace/connectors/formats"
)

// doc is a file that is read whole.
type doc struct {
	path    string
	stored  docPosition // what was last published
	known   bool        // something was
	now     docPosition // size and time at the last scan
	changed bool        // it differs from what was published and has settled
	present bool        // seen by the last scan
}

// docPosition is the stored version of a document. Hash is empty for one that
// was refused.
type docPosition struct {
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime"` // nanoseconds since 1970
	Hash  string `json:"hash"`
}

func (p docPosition) sameTime(q docPosition) bool { return p.Size == q.Size && p.Mtime == q.Mtime }

func (p docPosition) raw() json.RawMessage {
	b, err := json.Marshal(p)
	if err != nil {
		return nil // plain numbers and text always marshal
	}
	return b
}

// seeDoc notes a document that exists. One that is followed is read once two
// scans see it the same, so that one being written is not read in the middle.
func (s *source) seeDoc(path string, b *batch) {
	info, err := os.Stat(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.fail(b, path, err)
		}
		return
	}
	d := s.docs[path]
	if d == nil {
		d = &doc{path: path, now: docPosition{Size: -1}}
		s.docs[path] = d
	}
	d.present = true
	now := docPosition{Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	settled := !s.cfg.Follow || d.now.sameTime(now) || time.Since(info.ModTime()) > 2*time.Second
	d.now = now
	d.changed = settled && (!d.known || !d.stored.sameTime(now))
}

// missDocs publishes the deletion of documents that are gone.
func (s *source) missDocs(b *batch) {
	for _, path := range slices.Sorted(maps.Keys(s.docs)) {
		d := s.docs[path]
		if d.present || !matches(s.pattern, path) {
			continue
		}
		if b.full() {
			return
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			continue // it is there, but not as a file that could be read
		}
		if d.known {
			e := s.docEvent(path)
			e.Type = "millrace.file.deleted"
			b.add(&e)
			b.move(partition{File: path}, nil)
		}
		delete(s.docs, path)
	}
}

func (s *source) docEvent(path string) event.Event {
	e := event.Event{ID: path, Source: fileSource(path), Type: s.cfg.Type, Subject: path, Key: path}
	if e.Type == "" {
		e.Type = "millrace.file.document"
	}
	if s.cfg.Subject != "" {
		e.Subject = s.cfg.Subject
	}
	return e
}

// readDocs publishes changed documents until the answer is full.
func (s *source) readDocs(ctx context.Context, b *batch) error {
	for _, path := range slices.Sorted(maps.Keys(s.docs)) {
		d := s.docs[path]
		if !d.changed {
			continue
		}
		if b.full() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		s.readDoc(d, b)
	}
	return nil
}

func (s *source) readDoc(d *doc, b *batch) {
	d.changed = false
	content, version, err := readWhole(d.path, int64(s.cfg.MaxDocument))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return // the next scan sees it
	case errors.Is(err, errTooLarge):
		s.fail(b, d.path, err)
		d.stored, d.known = version, true
		b.move(partition{File: d.path}, version.raw())
		return
	case err != nil:
		s.fail(b, d.path, err)
		return
	}
	delete(s.failed, d.path)
	version.Hash = fmt.Sprintf("%016x", hash(content))
	same := d.known && d.stored.Hash == version.Hash
	d.stored, d.known = version, true
	b.move(partition{File: d.path}, version.raw())
	if same {
		return // touched, not changed
	}
	e := s.docEvent(d.path)
	e.Time = time.Unix(0, version.Mtime).UTC()
	e.ContentType = formats.ContentType(filepath.ToSlash(d.path), content)
	e.Data = content
	e.Ext = []event.Attr{{Name: "filehash", Value: version.Hash}}
	b.add(&e)
}

var errTooLarge = errors.New("larger than max.document.bytes")

// readWhole returns a file's content, never nil, and its size and time when it
// was opened: a change meanwhile makes them differ from what the next scan sees.
func readWhole(path string, limit int64) ([]byte, docPosition, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, docPosition{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, docPosition{}, err
	}
	version := docPosition{Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	if info.Size() > limit {
		return nil, version, fmt.Errorf("%w (%d)", errTooLarge, limit)
	}
	content := make([]byte, info.Size())
	n, err := io.ReadFull(f, content)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil // cut shorter meanwhile
	}
	return content[:n:n], version, err
}
