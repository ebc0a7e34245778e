package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"millrace/bus/commitlog"
	"millrace/bus/frame"
	"millrace/bus/index"
)

// The committer is the one goroutine that writes: it gives batches their
// offsets, puts them into the log, syncs once for all that wait (group commit)
// and brings the views up to what is synced.
type committer struct {
	bus   *Bus
	heads map[index.QueueID]int64 // next offset to give, ahead of the views
	ids   map[string]*pending     // batch ids written but not yet in the views
	// epochs in force, as of the last batch written: ahead of the groups' state.
	epochs map[slotKey]uint64

	unapplied []*written // written, not yet synced
	broken    error      // the log failed: nothing is written any more
	lastTime  int64
	retry     []waiting // retries of batches that are in unapplied
}

type slotKey struct{ group, slot string }

type written struct {
	*pending
	pos     uint64
	replied bool
}

// waiting is a retried batch that is answered together with the first try.
type waiting struct{ of, p *pending }

const (
	maxGroupBytes = 8 << 20 // one group commit
	maxGroup      = 1024
)

// Append implements Client.
func (b *Bus) Append(ctx context.Context, batch Batch) ([]Appended, error) {
	if len(batch.Writes) == 0 && len(batch.Saves) == 0 && len(batch.State) == 0 {
		return nil, nil
	}
	p, err := b.encode(&batch)
	if err != nil {
		return nil, err
	}
	parts, err := b.submit(ctx, p)
	if err != nil {
		return nil, err
	}
	return b.expand(parts), nil
}

// submit hands p to the committer and waits for its outcome.
func (b *Bus) submit(ctx context.Context, p *pending) ([]index.Part, error) {
	n := max(1, min(p.size, b.o.MaxPending)) // Invariant 10
	if err := b.room.Acquire(ctx, n); err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	select {
	case b.reqs <- p:
	case <-b.stopping:
		b.room.Release(n)
		return nil, ErrClosed
	case <-ctx.Done():
		b.room.Release(n)
		return nil, fmt.Errorf("append: %w", ctx.Err())
	}
	select {
	case o := <-p.done:
		b.room.Release(n)
		return o.parts, o.err
	case <-b.gone: // it may have been answered, or handed over too late
		b.room.Release(n)
		select {
		case o := <-p.done:
			return o.parts, o.err
		default:
			return nil, ErrClosed
		}
	case <-ctx.Done():
		go func() {
			select {
			case <-p.done:
			case <-b.gone:
			}
			b.room.Release(n)
		}()
		return nil, fmt.Errorf("append: %w: %w", ErrUnknown, ctx.Err())
	}
}

// expand lists places item by item.
func (b *Bus) expand(parts []index.Part) []Appended {
	n := int64(0)
	for _, p := range parts {
		n += p.Count
	}
	ts := b.topics.Load()
	out := make([]Appended, 0, n)
	for _, p := range parts {
		name := ""
		if t := ts.byID[p.Queue.Topic]; t != nil {
			name = t.Name
		}
		for i := range p.Count {
			out = append(out, Appended{Topic: name, Queue: int(p.Queue.Queue), Offset: p.First + i})
		}
	}
	return out
}

func (b *Bus) commitLoop() {
	defer close(b.gone)
	c := committer{bus: b, heads: map[index.QueueID]int64{}, ids: map[string]*pending{}, epochs: b.epochsAtOpen}
	tick := time.NewTimer(0)
	<-tick.C
	armed := false
	for {
		select {
		case p := <-b.reqs:
			c.group(p)
		case <-tick.C:
			armed = false
			c.flush()
		case <-b.stopping:
			for {
				select {
				case p := <-b.reqs:
					c.group(p)
					continue
				default:
				}
				c.flush()
				return
			}
		}
		if len(c.unapplied) > 0 && !armed {
			tick.Reset(b.o.SyncInterval)
			armed = true
		}
	}
}

// group takes first and whatever waits behind it through the log together.
func (c *committer) group(first *pending) {
	need := false
	bytes := int64(0)
	for p, n := first, 0; p != nil; n++ {
		bytes += p.size
		switch {
		case p.exec != nil:
			c.flush()
			p.done <- outcome{err: c.run(p.exec)}
		default:
			need = c.write(p) || need
		}
		p = nil
		if bytes < maxGroupBytes && n < maxGroup {
			select {
			case p = <-c.bus.reqs:
			default:
			}
		}
	}
	if need {
		c.flush()
		return
	}
	// Only async topics: acknowledged once the log's file has it.
	if err := c.bus.log.Flush(); err != nil {
		c.fail(err)
		return
	}
	for _, w := range c.unapplied {
		c.reply(w, nil)
	}
}

func (c *committer) run(f func() error) error {
	if c.broken != nil {
		return c.broken
	}
	return f()
}

// write gives p its offsets and puts it into the log, not yet synced. It
// reports whether p waits for a sync; a refused one is answered at once.
func (c *committer) write(p *pending) bool {
	if c.broken != nil {
		p.done <- outcome{err: c.broken}
		return false
	}
	if again, done := c.known(p); done {
		return again
	}
	if err := c.admit(p); err != nil {
		p.done <- outcome{err: err}
		return false
	}
	old := make([]int64, len(p.p.Runs))
	now := max(c.bus.o.Now().UnixNano(), c.lastTime)
	for i := range p.p.Runs {
		h := &p.p.Runs[i]
		switch h.Kind {
		case frame.Records, frame.Links:
			next, err := c.head(h.Queue)
			if err != nil {
				c.fail(err)
				p.done <- outcome{err: c.broken}
				return false
			}
			old[i] = next
			h.First, h.Stored = next, now
			c.heads[h.Queue] = next + int64(h.Count) // Invariant 3
		}
		h.Put(p.payload[h.Off:])
	}
	pos, err := c.bus.log.Append(frame.Batch, p.payload)
	if err != nil {
		for i := len(old) - 1; i >= 0; i-- {
			if h := &p.p.Runs[i]; h.HasRecords() {
				c.heads[h.Queue] = old[i]
			}
		}
		if errors.Is(err, commitlog.ErrFull) {
			p.done <- outcome{err: fmt.Errorf("append: %w: %w", ErrFull, err)}
			return false
		}
		c.fail(err)
		p.done <- outcome{err: c.broken}
		return false
	}
	c.lastTime = now
	if p.forget != "" {
		maps.DeleteFunc(c.epochs, func(k slotKey, _ uint64) bool { return k.group == p.forget })
	}
	for _, g := range p.grants {
		c.epochs[slotKey{g.Group, g.Slot}] = g.Epoch
	}
	if p.p.ID != "" {
		c.ids[p.p.ID] = p
	}
	c.unapplied = append(c.unapplied, &written{pending: p, pos: uint64(pos)})
	return p.sync
}

// known answers a retry of a batch that is stored or on its way. Invariant 2.
func (c *committer) known(p *pending) (needSync, done bool) {
	if p.p.ID == "" {
		return false, false
	}
	if first := c.ids[p.p.ID]; first != nil {
		c.retry = append(c.retry, waiting{of: first, p: p})
		return true, true
	}
	k, ok, err := c.bus.index.Known(p.p.ID)
	if err != nil {
		c.fail(err)
		p.done <- outcome{err: c.broken}
		return false, true
	}
	if ok {
		p.done <- outcome{parts: k.Parts}
	}
	return false, ok
}

// admit refuses what must not be stored: a stale owner's batch, one for a topic
// that has gone, a link to nothing.
func (c *committer) admit(p *pending) error {
	for _, o := range p.owners {
		if in := c.epochs[slotKey{o.Group, o.Slot}]; o.Epoch != in { // Invariant 11
			return &Error{Kind: ErrFenced, Thing: "group " + o.Group + " slot " + o.Slot, Msg: fmt.Sprintf("epoch %d is not the one in force (%d): %v", o.Epoch, in, ErrFenced)}
		}
	}
	ts := c.bus.topics.Load()
	for i := range p.p.Runs {
		if h := &p.p.Runs[i]; h.Kind != frame.Drop && ts.byID[h.Queue.Topic] == nil {
			return &Error{Kind: ErrNoTopic, Thing: fmt.Sprintf("topic with id %d", h.Queue.Topic), Msg: "was deleted meanwhile"}
		}
	}
	if p.links {
		return c.checkLinks(p)
	}
	return nil
}

// head returns the next offset of a queue.
func (c *committer) head(id index.QueueID) (int64, error) {
	if next, ok := c.heads[id]; ok {
		return next, nil
	}
	q, err := c.bus.index.Queue(id)
	return q.Next, err
}

// flush makes all that was written durable, brings the views there, wakes the
// readers and answers.
func (c *committer) flush() {
	if len(c.unapplied) == 0 || c.broken != nil {
		return
	}
	if err := c.bus.log.Sync(); err != nil {
		c.fail(err)
		return
	}
	// Invariant 1: only now do the views, and with them readers, see it.
	t := c.bus.index.Begin()
	for _, w := range c.unapplied {
		if err := frame.Apply(t, frame.Batch, w.pos, &w.p); err != nil {
			c.fail(err)
			return
		}
	}
	if err := t.Commit(uint64(c.bus.log.Synced())); err != nil {
		c.fail(err)
		return
	}
	ws, retry := c.unapplied, c.retry
	c.unapplied, c.retry = nil, nil
	if len(c.heads) > 1<<16 {
		clear(c.heads) // the views know them now
	}
	for _, w := range ws {
		delete(c.ids, w.p.ID)
		c.bus.published(w)
		c.reply(w, nil)
	}
	for _, r := range retry {
		r.p.done <- outcome{parts: r.of.p.Parts()}
	}
}

func (c *committer) reply(w *written, err error) {
	if w.replied {
		return
	}
	w.replied = true
	o := outcome{err: err}
	if err == nil {
		o.parts = w.p.Parts()
	}
	w.done <- o
}

// fail stops all writing: after a failed write or sync nobody knows what the
// disk holds, and only recovery finds out.
func (c *committer) fail(err error) {
	if c.broken == nil {
		c.broken = fmt.Errorf("append: %w: the log failed and takes nothing more until it is opened again: %w", ErrUnknown, err)
		c.bus.setBroken(c.broken)
		c.bus.o.Logger.Error("log failed", "error", err)
	}
	for _, w := range c.unapplied {
		c.reply(w, c.broken)
	}
	for _, r := range c.retry {
		r.p.done <- outcome{err: c.broken}
	}
	c.unapplied, c.retry = nil, nil
	clear(c.ids)
}

// published tells everybody who waits that a batch is readable.
func (b *Bus) published(w *written) {
	if w.topics != nil {
		b.topics.Store(w.topics)
	}
	for i := range w.p.Runs {
		h := &w.p.Runs[i]
		if h.HasRecords() {
			b.watch.Advance(h.Queue)
		}
	}
	b.remember(w.saves, w.reset)
	b.granted(w.grants)
}

// grantRecord is an epoch as it is stored.
type grantRecord struct {
	Group  string `json:"group"`
	Slot   string `json:"slot"`
	Member string `json:"member"`
	Epoch  uint64 `json:"epoch"`
}
