// Package table shows a compacted topic as a map from key to value: desired
// state, statuses, definitions. A Table is loaded by Open, kept up by Run and
// written by Put and Delete, which return once the change is durable and seen by
// this Table; other processes see it as soon as their Run has.
//
// An entry is an event of type "millrace.table.put", source "/tables/<topic>",
// whose key is the entry's and whose data is the value as JSON; a delete is a
// tombstone of type "millrace.table.delete". Writers of one key do not see each
// other: the last one wins.
package table

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"millrace/bus"
	"millrace/bus/event"
)

// Types of the events that stand for changes of a table.
const (
	TypePut    = "millrace.table.put"
	TypeDelete = "millrace.table.delete"
)

// page is how many records one Scan asks for.
const page = 1000

// Options of Open; the zero value works.
type Options struct {
	// MustExist makes a missing topic an error; otherwise it is created with one
	// queue.
	MustExist bool
	// Logger hears of values that cannot be decoded; nil means nowhere.
	Logger *slog.Logger
}

// Table is a compacted topic as a map. All methods may be called from many
// goroutines.
type Table[T any] struct {
	c      bus.Client
	topic  string
	logger *slog.Logger

	mu       sync.Mutex
	rows     map[string]row[T]
	writing  int // calls of write under way
	scanning bool
	own      []own[T]     // this Table's writes since the running scan began
	view     map[string]T // what Snapshot returns; nil = to be made anew
	changed  chan struct{}
	stats    Stats
}

// row is one entry as it was stored last.
type row[T any] struct {
	queue  int
	offset int64
	state  state
	value  T // zero unless live
}

type state byte

const (
	live state = iota
	malformed
	gone // kept for a while, so that an earlier write that comes in late stays hidden
)

// own is a write of this Table.
type own[T any] struct {
	key string
	row row[T]
}

// Stats counts since Open.
type Stats struct {
	Entries   int   // now
	Malformed int   // entries now whose value cannot be decoded, not in Entries
	Scans     int64 // times the whole topic was read
}

// Open makes the topic unless it exists, and reads it. Values of T are decoded
// from JSON. A topic that is not compacted is bus.ErrConflict.
func Open[T any](ctx context.Context, c bus.Client, topic string, o Options) (*Table[T], error) {
	t := &Table[T]{
		c: c, topic: topic, logger: o.Logger,
		rows: map[string]row[T]{}, changed: make(chan struct{}),
	}
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	info, err := c.Topic(ctx, topic)
	if errors.Is(err, bus.ErrNoTopic) && !o.MustExist {
		info, err = c.CreateTopic(ctx, bus.Topic{Name: topic, Type: bus.Compacted})
	}
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", topic, err)
	}
	if info.Type != bus.Compacted {
		return nil, &bus.Error{
			Kind: bus.ErrConflict, Thing: "topic " + topic, Field: "type",
			Msg: fmt.Sprintf("is %s but a table needs %s: use another topic", info.Type, bus.Compacted),
		}
	}
	if err := t.scan(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// Run follows the changes of others until ctx ends or the topic cannot be
// read; the error says which.
func (t *Table[T]) Run(ctx context.Context) error {
	seen := int64(-1)
	for {
		v, err := t.c.Changed(ctx, t.topic, seen)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.topic, err)
		}
		seen = v
		// What changes while this reads changes the version again.
		if err := t.scan(ctx); err != nil {
			return err
		}
	}
}

// Get returns the value of a key.
func (t *Table[T]) Get(key string) (T, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.rows[key]
	return r.value, ok && r.state == live
}

// Snapshot returns all entries as they are now. The map never changes and
// must not be changed.
func (t *Table[T]) Snapshot() map[string]T {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.view == nil {
		t.view = make(map[string]T, len(t.rows))
		for k, r := range t.rows {
			if r.state == live {
				t.view[k] = r.value
			}
		}
	}
	return t.view
}

// All yields the entries of a Snapshot by key.
func (t *Table[T]) All() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		view := t.Snapshot()
		for _, k := range slices.Sorted(maps.Keys(view)) {
			if !yield(k, view[k]) {
				return
			}
		}
	}
}

// Changed returns a channel that is closed at the next change. Take it before
// reading: what changes after that is told by it.
func (t *Table[T]) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// Stats returns the counts.
func (t *Table[T]) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	for _, r := range t.rows {
		switch r.state {
		case live:
			s.Entries++
		case malformed:
			s.Malformed++
		case gone:
		}
	}
	return s
}

// Put sets a key. It returns once the entry is durable and this Table shows it.
func (t *Table[T]) Put(ctx context.Context, key string, v T) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("table %s: key %s: %w", t.topic, key, err)
	}
	return t.write(ctx, key, data)
}

// Delete removes a key; one that is not there is fine. It returns once that is
// durable and this Table shows it.
func (t *Table[T]) Delete(ctx context.Context, key string) error {
	return t.write(ctx, key, nil)
}

func (t *Table[T]) write(ctx context.Context, key string, data []byte) error {
	if key == "" {
		return &bus.Error{Kind: bus.ErrInvalid, Thing: "table " + t.topic, Field: "key", Msg: "is empty: name the entry"}
	}
	e := event.Event{
		ID: rand.Text(), Source: "/tables/" + t.topic, Type: TypePut,
		ContentType: "application/json", Key: key, Data: data,
	}
	if data == nil {
		e.Type, e.ContentType = TypeDelete, ""
	}
	t.mu.Lock()
	t.writing++
	t.mu.Unlock()
	at, err := t.c.Append(ctx, bus.Batch{Writes: []bus.Write{{Topic: t.topic, Events: []event.Event{e}}}})
	if err == nil && len(at) != 1 {
		err = fmt.Errorf("%d places for one event", len(at))
	}
	w := own[T]{key: key, row: row[T]{state: gone}}
	if err == nil && data != nil {
		// Decoded again, so that what the caller does to its value later is not seen.
		w.row = t.decode(key, data)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	t.writing--
	if err != nil {
		return fmt.Errorf("table %s: key %s: %w", t.topic, key, err)
	}
	w.row.queue, w.row.offset = at[0].Queue, at[0].Offset
	if t.scanning {
		t.own = append(t.own, w)
	}
	if lay(t.rows, w) {
		t.tell()
	}
	return nil
}

// lay puts a write over rows, unless they have a later one of that key; it
// reports whether it did. One key stays in one queue, so offsets tell what is
// later.
func lay[T any](rows map[string]row[T], w own[T]) bool {
	if old, ok := rows[w.key]; ok && old.queue == w.row.queue && old.offset >= w.row.offset {
		return false
	}
	rows[w.key] = w.row
	return true
}

// tell wakes whoever waits for a change. The caller holds mu.
func (t *Table[T]) tell() {
	t.view = nil
	close(t.changed)
	t.changed = make(chan struct{})
}

// scan reads the whole topic. Values that did not change are not decoded again.
func (t *Table[T]) scan(ctx context.Context) error {
	t.mu.Lock()
	old := maps.Clone(t.rows)
	late := t.writing > 0 // a write older than a row that is gone may still come in
	t.scanning, t.own = true, nil
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		t.scanning, t.own = false, nil
		t.mu.Unlock()
	}()

	rows := make(map[string]row[T], len(old))
	for after := ""; ; {
		recs, err := t.c.Scan(ctx, t.topic, "", after, page)
		if err != nil {
			return fmt.Errorf("table %s: %w", t.topic, err)
		}
		if len(recs) == 0 {
			break
		}
		for i := range recs {
			rec := &recs[i]
			r, ok := old[rec.Key]
			if !ok || r.state == gone || r.queue != rec.Queue || r.offset != rec.Offset {
				r = t.decode(rec.Key, rec.Data)
				r.queue, r.offset = rec.Queue, rec.Offset
			}
			rows[rec.Key] = r
		}
		after = recs[len(recs)-1].Key
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.own { // the scan may have passed their keys before they were written
		lay(rows, w)
	}
	changed := false
	for k, r := range t.rows {
		n, ok := rows[k]
		switch {
		case !ok && r.state == gone && late:
			rows[k] = r
		case !ok:
			changed = changed || r.state != gone
		default:
			changed = changed || n.queue != r.queue || n.offset != r.offset
		}
	}
	for k := range rows {
		_, ok := t.rows[k]
		changed = changed || !ok
	}
	t.rows = rows
	t.stats.Scans++
	if changed {
		t.tell()
	}
	return nil
}

// decode reads a value; one that cannot be read is reported and left out.
func (t *Table[T]) decode(key string, data []byte) (r row[T]) {
	if err := json.Unmarshal(data, &r.value); err != nil {
		t.logger.Warn("table entry cannot be decoded", "topic", t.topic, "key", key, "error", err)
		return row[T]{state: malformed}
	}
	return r
}
