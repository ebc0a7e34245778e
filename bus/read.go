package bus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"time"

	"millrace/bus/commitlog"
	"millrace/bus/event"
	"millrace/bus/frame"
	"millrace/bus/index"
	"millrace/bus/watch"
)

// Read implements Client.
func (b *Bus) Read(ctx context.Context, from []Cursor, limit Limit) ([]event.Record, error) {
	limit.Records = defaultTo(limit.Records, 1000)
	limit.Bytes = defaultTo(limit.Bytes, 8<<20)
	var deadline <-chan time.Time
	var wt *watch.Waiter
	if limit.Wait > 0 {
		queues := make([]index.QueueID, 0, len(from))
		for i := range from {
			t, err := b.cursorTopic(&from[i])
			if err != nil {
				return nil, err
			}
			queues = append(queues, index.QueueID{Topic: t.ID, Queue: uint32(from[i].Queue)})
		}
		wt = b.watch.Register(queues)
		defer b.watch.Forget(wt)
		timer := time.NewTimer(limit.Wait)
		defer timer.Stop()
		deadline = timer.C
	}
	for {
		r := reader{bus: b, limit: limit}
		for i := range from {
			if err := r.cursor(&from[i]); err != nil {
				return nil, err
			}
			if r.full() {
				break
			}
		}
		if len(r.out) > 0 || wt == nil {
			return r.out, ctx.Err()
		}
		more, err := b.wait(ctx, wt, deadline)
		if err != nil || !more {
			return nil, err
		}
	}
}

// wait returns true when woken, false at the deadline; an error when ctx ends or
// the bus stops.
func (b *Bus) wait(ctx context.Context, wt *watch.Waiter, deadline <-chan time.Time) (bool, error) {
	select {
	case <-wt.C:
		return true, nil
	case <-deadline:
		return false, nil
	case <-b.stopping:
		return false, ErrClosed
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (b *Bus) cursorTopic(c *Cursor) (*topicState, error) {
	t := b.topics.Load().byName[c.Topic]
	if t == nil {
		return nil, noTopic(c.Topic)
	}
	if c.ID != 0 && c.ID != t.ID {
		return nil, &Error{Kind: ErrNoTopic, Thing: "topic " + c.Topic, Msg: "was deleted and made again: start from its earliest record"}
	}
	if c.Queue < 0 || c.Queue >= t.Queues {
		return nil, &Error{Kind: ErrInvalid, Thing: "topic " + c.Topic, Field: "queue", Msg: fmt.Sprintf("%d is not from 0 to %d", c.Queue, t.Queues-1)}
	}
	return t, nil
}

// reader collects the records of one answer.
type reader struct {
	bus   *Bus
	limit Limit
	out   []event.Record
	bytes int
	links resolver
}

func (r *reader) full() bool {
	return len(r.out) >= r.limit.Records || r.bytes >= r.limit.Bytes
}

func (r *reader) cursor(c *Cursor) error {
	t, err := r.bus.cursorTopic(c)
	if err != nil {
		return err
	}
	id := index.QueueID{Topic: t.ID, Queue: uint32(c.Queue)}
	q, err := r.bus.index.Queue(id)
	if err != nil {
		return err
	}
	next := max(c.Next, q.First)
	for tries := 0; next < q.Next && !r.full(); {
		runs, err := r.bus.index.Runs(id, next, math.MaxInt64, 16)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			return nil
		}
		for i := range runs {
			run := &runs[i]
			err := r.run(t, id, run, next)
			if errors.Is(err, commitlog.ErrNotFound) && tries < 10 {
				tries++ // the cleaner moved it meanwhile: look again
				break
			}
			if err != nil {
				return fmt.Errorf("topic %s queue %d offset %d: %w", t.Name, c.Queue, run.First, corrupt(err))
			}
			next = run.Last() + 1
			if r.full() {
				break
			}
		}
	}
	return nil
}

// run adds the records of one run from offset next on.
func (r *reader) run(t *topicState, id index.QueueID, run *index.Run, next int64) error {
	body, err := r.bus.runBody(run)
	if err != nil {
		return err
	}
	if r.out == nil {
		r.out = make([]event.Record, 0, min(r.limit.Records, max(int(run.Count), 16)))
	}
	var ev event.Event
	for off := run.First; off <= run.Last() && !r.full(); off++ {
		rec := event.Record{Topic: t.Name, Queue: int(id.Queue), Offset: off, Stored: time.Unix(0, run.Stored).UTC()}
		if run.Links {
			var l Link
			if l, body, err = frame.DecodeLink(body); err != nil {
				return frame.Bad(run.Pos, err)
			}
			if off < next {
				continue
			}
			ok, err := r.links.resolve(r.bus, &l, &rec)
			if err != nil {
				return err
			}
			if !ok {
				r.bus.lost(&l)
				continue
			}
		} else {
			if body, err = event.DecodeRecord(body, &ev); err != nil {
				return frame.Bad(run.Pos, err)
			}
			if off < next {
				continue
			}
			rec.Event = ev
			rec.Origin = event.Ref{Topic: t.ID, Queue: int(id.Queue), Offset: off}
		}
		r.out = append(r.out, rec)
		r.bytes += len(rec.Data) + 256
	}
	return nil
}

// runBody returns the bytes of a run's records.
func (b *Bus) runBody(run *index.Run) ([]byte, error) {
	p, err := b.frames.Get(run.Pos, b.readFrame)
	if err != nil {
		return nil, err
	}
	h, err := frame.ParseRun(p, run.Off)
	if err != nil || h.First != run.First || h.Count != run.Count {
		return nil, frame.Bad(run.Pos, frame.ErrPayload)
	}
	return h.Body, nil
}

func (b *Bus) readFrame(pos uint64) ([]byte, error) {
	f, err := b.log.Read(commitlog.Position(pos))
	return f.Payload, err
}

// corrupt marks an error that says that the log's bytes make no sense.
func corrupt(err error) error {
	var ce *commitlog.CorruptError
	if errors.As(err, &ce) || errors.Is(err, frame.ErrPayload) || errors.Is(err, event.ErrRecord) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// lost notes a link whose event was deleted by force with its topic.
func (b *Bus) lost(l *Link) {
	b.stats.lostLinks.Add(1)
	b.o.Logger.Warn("link to a deleted event skipped", "topic_id", l.To.Topic, "queue", l.To.Queue, "offset", l.To.Offset)
}

// resolver reads the events that links refer to. Links mostly rise through one
// run, so it goes on from where it stands.
type resolver struct {
	id   index.QueueID
	run  index.Run
	body []byte // after the record at offset at
	at   int64  // offset of ev; run.First-1 before the first
	ev   event.Event
}

const maxLinkDepth = 8

// resolve fills in rec's event, origin and attempt. False: the event is gone.
func (v *resolver) resolve(b *Bus, l *Link, rec *event.Record) (bool, error) {
	to := l.To
	overlay := l.Overlay
	for range maxLinkDepth {
		link, ok, err := v.seek(b, to)
		if err != nil || !ok {
			return false, err
		}
		if link == nil {
			rec.Event, rec.Origin, rec.Attempt = v.ev, to, l.Attempt
			for _, a := range overlay {
				rec.Event = rec.With(a)
			}
			return true, nil
		}
		// A link to a link: the nearer overlay wins.
		to = link.To
		if len(link.Overlay) > 0 {
			overlay = append(append([]event.Attr(nil), link.Overlay...), overlay...)
		}
	}
	return false, fmt.Errorf("link to topic id %d: %w: more than %d links in a chain", to.Topic, ErrCorrupt, maxLinkDepth)
}

// seek brings v.ev to the event at a place, or returns the link that is there.
func (v *resolver) seek(b *Bus, to event.Ref) (*Link, bool, error) {
	id := index.QueueID{Topic: to.Topic, Queue: uint32(to.Queue)}
	inside := v.body != nil && v.id == id && to.Offset >= v.run.First && to.Offset <= v.run.Last()
	if !inside || to.Offset <= v.at && to.Offset != v.at {
		if ok, err := v.load(b, id, to.Offset); err != nil || !ok {
			return nil, ok, err
		}
	}
	if v.run.Links {
		var l Link
		body := v.body
		var err error
		for off := v.run.First; off <= to.Offset; off++ {
			if l, body, err = frame.DecodeLink(body); err != nil {
				return nil, false, frame.Bad(v.run.Pos, err)
			}
		}
		return &l, true, nil
	}
	for v.at < to.Offset {
		var err error
		if v.body, err = event.DecodeRecord(v.body, &v.ev); err != nil {
			return nil, false, frame.Bad(v.run.Pos, err)
		}
		v.at++
	}
	return nil, true, nil
}

func (v *resolver) load(b *Bus, id index.QueueID, offset int64) (bool, error) {
	for tries := 0; ; tries++ {
		runs, err := b.index.Runs(id, offset, offset+1, 1)
		if err != nil || len(runs) == 0 {
			return false, err
		}
		body, err := b.runBody(&runs[0])
		if errors.Is(err, commitlog.ErrNotFound) && tries < 10 {
			continue // moved meanwhile
		}
		if err != nil {
			return false, err
		}
		*v = resolver{id: id, run: runs[0], body: body, at: runs[0].First - 1}
		return true, nil
	}
}

// Bounds implements Client.
func (b *Bus) Bounds(_ context.Context, topic string) ([]Bound, error) {
	t := b.topics.Load().byName[topic]
	if t == nil {
		return nil, noTopic(topic)
	}
	out := make([]Bound, t.Queues)
	for i := range out {
		q, err := b.index.Queue(index.QueueID{Topic: t.ID, Queue: uint32(i)})
		if err != nil {
			return nil, err
		}
		out[i] = Bound{Queue: i, First: q.First, Next: q.Next}
	}
	return out, nil
}

// OffsetAt implements Client: a binary search over the queue's runs.
func (b *Bus) OffsetAt(_ context.Context, topic string, queue int, at time.Time) (int64, error) {
	t, err := b.cursorTopic(&Cursor{Topic: topic, Queue: queue})
	if err != nil {
		return 0, err
	}
	id := index.QueueID{Topic: t.ID, Queue: uint32(queue)}
	q, err := b.index.Queue(id)
	if err != nil {
		return 0, err
	}
	n := sort.Search(int(q.Next-q.First), func(i int) bool {
		runs, e := b.index.Runs(id, q.First+int64(i), q.Next, 1)
		err = errors.Join(err, e)
		return len(runs) == 0 || runs[0].Stored >= at.UnixNano()
	})
	return q.First + int64(n), err
}
