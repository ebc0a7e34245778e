package vectors

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/transforms/embed"
)

// sink keeps what was written in memory until Flush, which stores it in one
// transaction.
type sink struct {
	db        *sql.DB
	log       *slog.Logger
	connector string
	embedder  embed.Embedder
	model     string
	byID      bool
	dims      int // of the vectors; 0 = not known yet

	entries []entry
	slots   map[slotID]*slot
	flushes int
}

type slotID struct {
	topic string
	queue int
}

func (id slotID) String() string { return id.topic + "/" + strconv.Itoa(id.queue) }

// slot is how far one queue is. While records that failed may not have been dealt
// with, the store keeps no offset for it: the runtime's own checkpoint counts,
// which does not pass them before they are dead letters or stored.
type slot struct {
	next   int64
	dirty  bool          // something was written since the last flush
	failed map[int64]int // offset → number of the flush before which it failed
}

func open(ctx context.Context, c config, env connectors.Env) (connectors.Sink, error) {
	path, err := c.file(&env)
	if err != nil {
		return nil, err
	}
	e, err := embed.New(c.Embed)
	if err != nil {
		return nil, err
	}
	s := &sink{log: env.Logger, connector: env.Connector, embedder: e, model: e.Info().Model, byID: c.Identity == "id", slots: map[slotID]*slot{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.db, err = create(ctx, path); err != nil {
		return nil, err
	}
	f, err := factsOf(ctx, s.db)
	if err == nil {
		err = c.fits(f, s.model)
	}
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	s.dims = max(c.Dimensions, c.lexicalDims(), f.dims)
	if e.Info().Kind == "lexical" {
		s.log.Info("the store is lexical: it matches words, not meaning", "model", s.model, "path", path)
	}
	return s, nil
}

// fits refuses a config that is not the store's.
func (c *config) fits(f facts, model string) error {
	want := max(c.Dimensions, c.lexicalDims())
	switch {
	case f.dims == 0:
		return nil
	case f.model != model:
		return fmt.Errorf("embed: the store's vectors are by %s, not %s, and the two cannot be compared: name another path, or delete the file and begin again", f.model, model)
	case want != 0 && want != f.dims:
		return fmt.Errorf("dimensions: the store's vectors have %d, not %d: name another path, or delete the file and begin again", f.dims, want)
	}
	return nil
}

// Write implements connectors.Sink.
func (s *sink) Write(ctx context.Context, records []event.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries := make([]entry, len(records))
	failed := map[int]error{}
	var bare []int // without a vector
	for i := range records {
		var err error
		entries[i], err = s.entryOf(&records[i])
		if err == nil && entries[i].Total > 0 && entries[i].Vector == nil {
			bare = append(bare, i)
		}
		if err != nil {
			failed[i] = connectors.Permanent(err)
		}
	}
	if err := s.embed(ctx, entries, bare, failed); err != nil {
		return err
	}
	for i := range entries {
		if failed[i] == nil {
			if err := s.measure(entries[i].Vector); err != nil {
				failed[i] = connectors.Permanent(err)
			}
		}
	}
	for i := range records {
		if failed[i] == nil {
			s.taken(&records[i])
			s.entries = append(s.entries, entries[i])
		}
	}
	for i := range failed {
		sl := s.slot(&records[i])
		sl.failed[records[i].Offset] = s.flushes
	}
	if len(failed) > 0 {
		return &connectors.BatchError{Failed: failed}
	}
	return nil
}

// embed gives a vector to entries that came without.
func (s *sink) embed(ctx context.Context, entries []entry, bare []int, failed map[int]error) error {
	if len(bare) == 0 {
		return nil
	}
	texts := make([]string, len(bare))
	for n, i := range bare {
		texts[n] = embed.Passage(entries[i].Title, entries[i].Path, entries[i].Text)
	}
	vectors, err := s.embedder.Embed(ctx, texts)
	if err != nil {
		return later(fmt.Errorf("embed: %w", err))
	}
	for n, i := range bare {
		if entries[i].Vector = vectors[n].Values; vectors[n].Err != nil {
			failed[i] = connectors.Permanent(fmt.Errorf("embed: %w", vectors[n].Err))
		}
	}
	return nil
}

// later carries the pause that an endpoint asked for.
func later(err error) error {
	var e *embed.Error
	if errors.As(err, &e) && e.After > 0 {
		return &connectors.RetryError{After: e.After, Err: err}
	}
	return err
}

// measure refuses a vector of another length than the store's.
func (s *sink) measure(vector []float32) error {
	if len(vector) == 0 {
		return nil
	}
	if s.dims == 0 {
		s.dims = len(vector)
	}
	if len(vector) != s.dims {
		return fmt.Errorf("data.embedding has %d dimensions, but the store's vectors have %d: embed with the model that the store was made with, or name another path", len(vector), s.dims)
	}
	return nil
}

// slot is the one that a record came by, which is now to be saved.
func (s *sink) slot(r *event.Record) *slot {
	id := slotID{r.Topic, r.Queue}
	sl := s.slots[id]
	if sl == nil {
		sl = &slot{failed: map[int64]int{}}
		s.slots[id] = sl
	}
	sl.dirty = true
	sl.next = max(sl.next, r.Offset+1)
	return sl
}

// taken notes that a record will be stored. What failed before at its place was
// tried again; and where the runtime goes on behind a failed record after a flush,
// that one's letter is stored.
func (s *sink) taken(r *event.Record) {
	sl := s.slot(r)
	for offset, flush := range sl.failed {
		if offset == r.Offset || offset < r.Offset && flush < s.flushes {
			delete(sl.failed, offset)
		}
	}
}

// Flush implements connectors.Sink. Invariant 5: data and offsets are durable
// together, or neither is.
func (s *sink) Flush(ctx context.Context) error {
	dirty := len(s.entries) > 0
	for _, sl := range s.slots {
		dirty = dirty || sl.dirty
	}
	if !dirty {
		return nil
	}
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	m, err := newMerge(ctx, tx, s.dims, s.model)
	if err != nil {
		return err
	}
	defer m.close()
	for i := range s.entries {
		if err := m.take(ctx, &s.entries[i]); err != nil {
			return fmt.Errorf("document %s: %w", s.entries[i].Document, err)
		}
	}
	if err := m.finish(ctx); err != nil {
		return err
	}
	if err := s.saveOffsets(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if m.old > 0 {
		s.log.Info("events older than their documents were left out", "events", m.old)
	}
	clear(s.entries)
	s.entries = s.entries[:0]
	for _, sl := range s.slots {
		sl.dirty = false
	}
	s.flushes++
	return nil
}

func (s *sink) saveOffsets(ctx context.Context, tx *sql.Tx) error {
	for id, sl := range s.slots {
		if !sl.dirty {
			continue
		}
		var err error
		if len(sl.failed) > 0 {
			_, err = tx.ExecContext(ctx, `delete from offsets where connector = ? and slot = ?`, s.connector, id.String())
		} else {
			_, err = tx.ExecContext(ctx, `insert or replace into offsets (connector, slot, next) values (?, ?, ?)`, s.connector, id.String(), sl.next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Offsets implements connectors.OffsetKeeper.
func (s *sink) Offsets(ctx context.Context) (map[string]int64, error) {
	rows, err := s.db.QueryContext(ctx, `select slot, next from offsets where connector = ?`, s.connector)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err tells
	out := map[string]int64{}
	for rows.Next() {
		var name string
		var next int64
		if err := rows.Scan(&name, &next); err != nil {
			return nil, err
		}
		out[name] = next
	}
	return out, rows.Err()
}

// Close implements connectors.Sink. What was not flushed is forgotten.
func (s *sink) Close() error { return s.db.Close() }
