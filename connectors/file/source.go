package file

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/formats"
)

// What one answer holds at most, and how many files stay open while nothing is
// read from them.
const (
	maxEvents    = 1000
	maxBytes     = 4 << 20
	maxOpenFiles = 256
)

// rotatedIdle is how long a file that no longer matches the path is read on after
// the last bytes came.
const rotatedIdle = time.Minute

// source reads lines through tails and whole files through docs.
type source struct {
	cfg     sourceConfig
	pattern string // absolute
	key     string // the key's path as gjson wants it
	log     *slog.Logger

	tails  map[inode]*tail
	turn   int // whose turn it is among the tails
	docs   map[string]*doc
	open   int // tails with an open file
	stored map[inode]storedTail
	failed map[string]string // path → the error that was reported of it

	scanned  time.Time // when the last scan ended; zero = never
	scanTook time.Duration
}

func openSource(_ context.Context, cfg sourceConfig, env connectors.Env) (connectors.Source, error) {
	pattern, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, err
	}
	s := &source{
		cfg: cfg, pattern: pattern, key: connectors.FieldPath(cfg.Key), log: env.Logger,
		tails: map[inode]*tail{}, docs: map[string]*doc{}, stored: map[inode]storedTail{}, failed: map[string]string{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for partition, offset := range env.Positions {
		s.restore(partition, offset)
	}
	return s, nil
}

// partition names a file in the stored positions. ID is the identity of a file of
// lines and empty for a document.
type partition struct {
	File string `json:"file"`
	ID   string `json:"id,omitempty"`
}

func (p partition) String() string {
	b, err := json.Marshal(p)
	if err != nil {
		return p.File // strings always marshal
	}
	return string(b)
}

// restore takes one stored position; what is not ours to understand is ignored.
func (s *source) restore(key string, offset json.RawMessage) {
	var p partition
	if json.Unmarshal([]byte(key), &p) != nil || p.File == "" || offset == nil {
		return
	}
	if p.ID == "" {
		var v docPosition
		if json.Unmarshal(offset, &v) == nil {
			s.docs[p.File] = &doc{path: p.File, stored: v, known: true}
		}
		return
	}
	st := storedTail{partition: p}
	if json.Unmarshal(offset, &st.position) != nil {
		return
	}
	id, ok := parseInode(st.position.Inode)
	if old, dup := s.stored[id]; ok && (!dup || old.position.Generation < st.position.Generation) {
		s.stored[id] = st
	}
}

// Read returns lines and documents in turn, file by file.
func (s *source) Read(ctx context.Context) (connectors.Produced, error) {
	b := &batch{topic: s.cfg.Topic}
	for {
		if err := ctx.Err(); err != nil {
			return connectors.Produced{}, err
		}
		if s.scanDue() {
			if err := s.scan(ctx, b); err != nil {
				return connectors.Produced{}, err
			}
		}
		if err := s.readDocs(ctx, b); err != nil {
			return connectors.Produced{}, err
		}
		if err := s.readTails(ctx, b); err != nil {
			return connectors.Produced{}, err
		}
		if !b.empty() {
			return b.produced, nil
		}
		if !s.cfg.Follow && s.finished() {
			return connectors.Produced{}, io.EOF
		}
		if err := wait(ctx, s.cfg.Poll); err != nil {
			return connectors.Produced{}, err
		}
	}
}

// Close lets go of all files.
func (s *source) Close() error {
	for _, t := range s.tails {
		s.shut(t)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// scanDue spaces scans so that they take at most about a twentieth of the time.
func (s *source) scanDue() bool {
	if s.scanned.IsZero() {
		return true
	}
	return s.cfg.Follow && time.Since(s.scanned) >= max(s.cfg.Poll, 20*s.scanTook)
}

// scan looks for new, renamed, changed and deleted files.
func (s *source) scan(ctx context.Context, b *batch) error {
	first, begin := s.scanned.IsZero(), time.Now()
	paths, err := match(s.pattern)
	if err != nil {
		return err
	}
	_, rootErr := os.Stat(s.pattern)
	for path, d := range s.docs {
		d.present = false
		if errors.Is(rootErr, fs.ErrNotExist) && d.known && strings.HasPrefix(path, s.pattern+string(filepath.Separator)) {
			return fmt.Errorf("path: %s: %w", s.pattern, errNoRoot) // not every document in it was deleted
		}
	}
	seen := make(map[inode]bool, len(s.tails))
	for i, path := range paths {
		if i%1024 == 1023 && ctx.Err() != nil {
			return ctx.Err()
		}
		if s.cfg.formatOf(path) == formats.Document {
			s.seeDoc(path, b)
			continue
		}
		id, err := inodeOf(path)
		if err != nil {
			s.fail(b, path, err)
			continue
		}
		if seen[id] {
			continue // a second name of the same file
		}
		seen[id] = true
		s.seeTail(path, id)
	}
	for id, t := range s.tails {
		if !seen[id] && t.lost.IsZero() {
			t.lost = time.Now()
		}
	}
	if first {
		s.findRotated(b)
	}
	s.missDocs(b)
	s.scanned, s.scanTook = time.Now(), time.Since(begin)
	return nil
}

// fail reports that a file cannot be read, once for every reason.
func (s *source) fail(b *batch, path string, err error) {
	if s.failed[path] == err.Error() {
		return
	}
	s.failed[path] = err.Error()
	b.fail(connectors.BadInput{Origin: path, Err: err})
}

// readTails gives every file of lines a turn, beginning with the one after the
// last that had something, until the answer is full.
func (s *source) readTails(ctx context.Context, b *batch) error {
	order := slices.SortedFunc(maps.Values(s.tails), func(a, b *tail) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
	})
	for i := range order {
		if b.full() {
			s.turn = (s.turn + i) % len(order)
			return nil
		}
		t := order[(s.turn+i)%len(order)]
		if err := s.readTail(ctx, t, b); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.fail(b, t.name, err)
			s.shut(t)
		}
	}
	return nil
}

// finished reports whether a source that does not follow has read everything.
func (s *source) finished() bool {
	for _, t := range s.tails {
		if !t.done && s.failed[t.name] == "" {
			return false
		}
	}
	for _, d := range s.docs {
		if d.changed {
			return false
		}
	}
	return true
}

// batch is one answer in the making.
type batch struct {
	produced connectors.Produced
	topic    string
	bytes    int
	ids      []byte // arena that ids of events are cut from
}

func (b *batch) full() bool {
	return len(b.produced.Events)+len(b.produced.Failed) >= maxEvents || b.bytes >= maxBytes
}

func (b *batch) empty() bool {
	return len(b.produced.Events)+len(b.produced.Failed)+len(b.produced.Positions) == 0
}

// next makes room for one more event, to be filled in place.
func (b *batch) next() *event.Event {
	if b.produced.Events == nil {
		b.produced.Events = make([]connectors.Out, 0, maxEvents)
	}
	b.produced.Events = append(b.produced.Events, connectors.Out{Topic: b.topic})
	return &b.produced.Events[len(b.produced.Events)-1].Event
}

// undo gives back what next made.
func (b *batch) undo() { b.produced.Events = b.produced.Events[:len(b.produced.Events)-1] }

func (b *batch) add(e *event.Event) {
	*b.next() = *e
	b.bytes += len(e.Data)
}

func (b *batch) fail(bad connectors.BadInput) {
	b.produced.Failed = append(b.produced.Failed, bad)
	b.bytes += len(bad.Raw)
}

// move sets a partition's position; a nil offset forgets it.
func (b *batch) move(p partition, offset json.RawMessage) {
	if b.produced.Positions == nil {
		b.produced.Positions = map[string]json.RawMessage{}
	}
	b.produced.Positions[p.String()] = offset
}
