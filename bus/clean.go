package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/bus/commitlog"
	"millrace/bus/frame"
	"millrace/bus/index"
)

// tombstoneAge is how long the deletion of a key stays readable.
const tombstoneAge = 24 * time.Hour

const cleanChunk = 1 << 20 // bytes looked at between two group commits

// cleanLoop applies retention and gives space back, from time to time.
func (b *Bus) cleanLoop() {
	if b.o.CleanEvery < 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-b.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	ticker := time.NewTicker(b.o.CleanEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := b.Clean(ctx); err != nil && ctx.Err() == nil {
			b.o.Logger.Warn("cleaning stopped, tried again later", "error", err)
		}
	}
}

// Clean applies every topic's retention, then removes the oldest segments while
// the log takes more than twice its live bytes and one segment. What is still
// needed in them is copied forward first. Invariant 8.
//
// Segments go strictly from the oldest on: what a later frame says about an
// earlier one (trimmed, superseded, deleted) can be forgotten together with it.
func (b *Bus) Clean(ctx context.Context) error {
	if err := b.retain(ctx); err != nil {
		return err
	}
	if err := b.forgetDead(ctx); err != nil {
		return err
	}
	for range b.log.Segments() {
		m, err := b.index.Meta()
		if err != nil {
			return err
		}
		segs := b.log.Segments()
		if !segs[0].Sealed || b.log.Size() <= 2*m.Live+b.o.SegmentBytes {
			return nil
		}
		if err := b.cleanSegment(ctx, segs[0]); err != nil {
			return fmt.Errorf("segment %d: %w", segs[0].Base, err)
		}
	}
	return nil
}

// retain trims the queues of topics that have a retention.
func (b *Bus) retain(ctx context.Context) error {
	for _, t := range b.topics.Load().byID {
		if t.Retention == (Retention{}) {
			continue
		}
		var runs []frame.Run
		for i := range t.Queues {
			id := index.QueueID{Topic: t.ID, Queue: uint32(i)}
			q, err := b.index.Queue(id)
			if err != nil {
				return err
			}
			first, err := b.retainFrom(ctx, t, id, q)
			if err != nil {
				return err
			}
			if first > q.First {
				b.stats.trimmed.Add(first - q.First)
				runs = append(runs, frame.Run{Queue: id, Kind: frame.Bound, First: first})
			}
		}
		if len(runs) == 0 {
			continue
		}
		enc := b.encoder(&pending{sync: true})
		for _, h := range runs {
			enc.open(h)
		}
		p, err := enc.finish("")
		if err != nil {
			return err
		}
		if _, err := b.submit(ctx, p); err != nil && !errors.Is(err, ErrNoTopic) {
			return err
		}
	}
	return nil
}

// retainFrom returns the first offset that a queue's retention keeps.
func (b *Bus) retainFrom(ctx context.Context, t *topicState, id index.QueueID, q index.Queue) (int64, error) {
	first := q.First
	if age := time.Duration(t.Retention.Age); age > 0 {
		at, err := b.OffsetAt(ctx, t.Name, int(id.Queue), b.o.Now().Add(-age))
		if err != nil {
			return 0, err
		}
		first = max(first, at)
	}
	if t.Retention.Bytes == 0 || q.Bytes <= t.Retention.Bytes {
		return first, nil
	}
	pinned, err := b.index.Runs(id, 0, q.First, 0) // below first, kept for links
	if err != nil {
		return 0, err
	}
	excess := q.Bytes - t.Retention.Bytes
	for i := range pinned {
		if pinned[i].Last() < q.First {
			excess -= int64(pinned[i].Bytes)
		}
	}
	for at := q.First; excess > 0 && at < q.Next; {
		runs, err := b.index.Runs(id, at, q.Next, 256)
		if err != nil || len(runs) == 0 {
			return first, err
		}
		for i := range runs {
			if excess <= 0 {
				break
			}
			excess -= int64(runs[i].Bytes)
			at = runs[i].Last() + 1
		}
		first = max(first, at)
	}
	return first, nil
}

// cleanSegment copies forward what is live in the oldest segment and removes it.
func (b *Bus) cleanSegment(ctx context.Context, seg commitlog.Segment) error {
	var frames []commitlog.Frame
	bytes := 0
	bounds := map[index.QueueID]bool{} // queues whose bounds have been copied
	move := func() error {
		if len(frames) == 0 {
			return nil
		}
		err := b.inCommitter(ctx, func() error { return b.moveForward(frames, bounds) })
		frames, bytes = nil, 0
		return err
	}
	for f, err := range b.log.Scan(seg.Base) {
		if err != nil {
			return err
		}
		if f.Pos >= seg.End {
			break
		}
		frames = append(frames, f)
		if bytes += len(f.Payload); bytes >= cleanChunk {
			if err := move(); err != nil {
				return err
			}
		}
	}
	if err := move(); err != nil {
		return err
	}
	// The views must not need the segment any more, also after a crash.
	if err := b.index.Flush(); err != nil {
		return err
	}
	if err := b.log.Remove(seg.Base); err != nil {
		return err
	}
	b.stats.cleaned.Add(1)
	return nil
}

// moveForward runs in the committer, with everything applied: what it finds
// live is live until it is done.
func (b *Bus) moveForward(frames []commitlog.Frame, bounds map[index.QueueID]bool) error {
	m := mover{bus: b, bounds: bounds, ts: b.topics.Load()}
	for _, f := range frames {
		p, err := frame.Parse(f.Payload)
		if err != nil {
			return frame.Bad(uint64(f.Pos), err)
		}
		if err := m.frame(uint64(f.Pos), &p); err != nil {
			return err
		}
	}
	n, err := b.note(frame.Moved, m.all())
	b.stats.moved.Add(n)
	return err
}

// note runs in the committer: it appends runs of the cleaner's own, durably.
func (b *Bus) note(kind byte, runs []frame.Run) (int64, error) {
	if len(runs) == 0 {
		return 0, nil
	}
	size := frame.Header
	for i := range runs {
		size += frame.RunHeader + len(runs[i].Body)
	}
	buf := make([]byte, frame.Header, size)
	frame.PutHeader(buf, "", len(runs))
	for i := range runs {
		buf = frame.AppendRun(buf, &runs[i])
	}
	pos, err := b.log.Append(kind, buf)
	if err != nil {
		return 0, err
	}
	if err := b.log.Sync(); err != nil {
		return 0, err
	}
	t := b.index.Begin()
	if err := frame.Apply(t, kind, uint64(pos), &frame.Payload{Runs: runs}); err != nil {
		return 0, err
	}
	return int64(len(buf)), t.Commit(uint64(b.log.Synced()))
}

// forgetDead lets go of dead runs that no link refers to (any more).
func (b *Bus) forgetDead(ctx context.Context) error {
	const step = 4096
	for n := step; n == step; {
		err := b.inCommitter(ctx, func() error {
			dead, err := b.index.Dead(step)
			n = len(dead)
			runs := make([]frame.Run, n)
			for i, d := range dead {
				runs[i] = frame.Run{Queue: d.Queue, Kind: frame.Forget, First: d.First}
			}
			if err == nil {
				_, err = b.note(frame.Batch, runs)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mover collects what of some frames must be copied forward.
type mover struct {
	bus    *Bus
	ts     *topicSet
	bounds map[index.QueueID]bool
	runs   []frame.Run

	keep, forget   []byte // bodies of frame.IDs and frame.ForgetIDs
	kept, forgeted uint32
}

func (m *mover) frame(pos uint64, p *frame.Payload) error {
	for i := range p.Runs {
		h := &p.Runs[i]
		switch h.Kind {
		case frame.Records, frame.Links:
			if err := m.records(pos, h); err != nil {
				return err
			}
			fallthrough
		case frame.Bound:
			if err := m.bound(h.Queue); err != nil {
				return err
			}
		case frame.IDs:
			ids, err := frame.DecodeIDs(h)
			if err != nil {
				return frame.Bad(pos, err)
			}
			for id := range ids {
				if err := m.id(pos, id); err != nil {
					return err
				}
			}
		}
	}
	if p.ID != "" {
		return m.id(pos, p.ID)
	}
	return nil
}

// records copies a run that is live and stands here.
func (m *mover) records(pos uint64, h *frame.Run) error {
	runs, err := m.bus.index.Runs(h.Queue, h.First, h.First+1, 1)
	if err != nil || len(runs) == 0 {
		return err
	}
	if r := &runs[0]; r.First != h.First || r.Pos != pos || r.Off != h.Off {
		return nil
	}
	if h.Compacted() && m.bus.o.Now().UnixNano()-h.Stored > int64(tombstoneAge) {
		key, dead, err := frame.OnlyRecord(h)
		if err != nil {
			return frame.Bad(pos, err)
		}
		q, offset, ok, err := m.bus.index.Key(h.Queue.Topic, key)
		if err != nil {
			return err
		}
		if dead && ok && q == h.Queue && offset == h.First {
			m.runs = append(m.runs, frame.Run{Queue: h.Queue, Kind: frame.ForgetKey, First: h.First})
			return nil
		}
	}
	m.runs = append(m.runs, *h)
	return nil
}

// bound copies a queue's [first, next), once for each cleaning of a segment.
func (m *mover) bound(id index.QueueID) error {
	if m.bounds[id] || m.ts.byID[id.Topic] == nil {
		return nil
	}
	m.bounds[id] = true
	q, err := m.bus.index.Queue(id)
	m.runs = append(m.runs, frame.Run{Queue: id, Kind: frame.Bound, First: q.First, Stored: q.Next})
	return err
}

// id copies a batch id that is young enough to be asked for again.
func (m *mover) id(pos uint64, id string) error {
	k, ok, err := m.bus.index.Known(id)
	if err != nil || !ok || k.Pos != pos {
		return err
	}
	if m.bus.o.Now().UnixNano()-k.Stored < int64(m.bus.o.DedupeFor) {
		m.keep = frame.AppendID(m.keep, id, k)
		m.kept++
	} else {
		m.forget = frame.AppendID(m.forget, id, k)
		m.forgeted++
	}
	return nil
}

func (m *mover) all() []frame.Run {
	if m.kept > 0 {
		m.runs = append(m.runs, frame.Run{Kind: frame.IDs, Count: m.kept, Body: m.keep})
	}
	if m.forgeted > 0 {
		m.runs = append(m.runs, frame.Run{Kind: frame.ForgetIDs, Count: m.forgeted, Body: m.forget})
	}
	return m.runs
}
