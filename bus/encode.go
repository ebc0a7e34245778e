package bus

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"millrace/bus/event"
	"millrace/bus/frame"
	"millrace/bus/group"
	"millrace/bus/index"
)

// pending is a batch on its way to the log. The caller's goroutine encodes it;
// the committer fills in offsets and times and answers on done.
type pending struct {
	payload []byte
	p       frame.Payload
	sync    bool
	links   bool
	owners  []Owner
	saves   []Checkpoint
	grants  []group.Grant // epochs that come into force with it
	reset   bool          // its saves are ResetGroup's
	topics  *topicSet     // comes into force with it
	forget  string        // a group whose epochs end with it
	exec    func() error  // in place of a payload: run between batches
	size    int64
	done    chan outcome
}

type outcome struct {
	parts []index.Part
	err   error
}

// encode turns a batch into a frame's payload, all but offsets and times. What
// is wrong with the batch is found here, before anything is stored.
func (b *Bus) encode(batch *Batch) (*pending, error) {
	if len(batch.ID) > 1024 {
		return nil, &Error{Kind: ErrInvalid, Thing: "batch", Field: "id", Msg: "is longer than 1024 bytes"}
	}
	enc := b.encoder(&pending{owners: slices.Clone(batch.As), saves: batch.Saves})
	enc.grow(batch)
	for i := range batch.Writes {
		if err := enc.write(&batch.Writes[i]); err != nil {
			return nil, err
		}
	}
	for i := range batch.Saves {
		if err := enc.save(&batch.Saves[i]); err != nil {
			return nil, err
		}
	}
	if err := enc.state(batch.State); err != nil {
		return nil, err
	}
	return enc.finish(batch.ID)
}

// encoder lays a batch out in one buffer as it goes.
type encoder struct {
	bus   *Bus
	ts    *topicSet
	out   *pending
	buf   []byte
	runs  []frame.Run
	order []frame.Part // of the caller's own items
}

func (b *Bus) encoder(out *pending) *encoder {
	out.done = make(chan outcome, 1)
	return &encoder{bus: b, ts: b.topics.Load(), out: out, buf: make([]byte, frame.Header, 512)}
}

// grow makes room for a batch at once.
func (e *encoder) grow(batch *Batch) {
	n := 512 + len(batch.ID) + 512*len(batch.Saves)
	for i := range batch.Writes {
		w := &batch.Writes[i]
		for j := range w.Events {
			n += w.Events[j].Size()
		}
		n += 64 * len(w.Links)
	}
	for i := range batch.State {
		n += 128 + len(batch.State[i].Key) + len(batch.State[i].Value)
	}
	n += n / 256 // run headers
	e.buf = slices.Grow(e.buf, n)
}

// open begins a run; what is appended to buf until the next one is its body.
func (e *encoder) open(h frame.Run) *frame.Run {
	h.Off = uint32(len(e.buf))
	e.buf = append(e.buf, make([]byte, frame.RunHeader)...)
	e.runs = append(e.runs, h)
	return &e.runs[len(e.runs)-1]
}

func (e *encoder) write(w *Write) error {
	t := e.ts.byName[w.Topic]
	if t == nil {
		return noTopic(w.Topic)
	}
	for j := range w.Events {
		ev := &w.Events[j]
		if err := ev.Validate(); err != nil {
			field, problem := event.Problem(err)
			return &Error{Kind: ErrInvalid, Thing: "topic " + w.Topic, Field: fmt.Sprintf("[%d].%s", j, field), Msg: problem}
		}
		if n := ev.Size(); int64(n) > e.bus.o.MaxEvent {
			return &Error{Kind: ErrTooLarge, Thing: "topic " + w.Topic, Field: fmt.Sprintf("[%d].data", j), Msg: fmt.Sprintf("the event takes %d bytes, more than the limit of %d", n, e.bus.o.MaxEvent)}
		}
		if t.Type == Compacted && ev.Key == "" {
			return &Error{Kind: ErrInvalid, Thing: "topic " + w.Topic, Field: fmt.Sprintf("[%d].partitionkey", j), Msg: "is required: the topic is compacted, it keeps the latest event of each key"}
		}
	}
	for j := range w.Links {
		if w.Links[j].To.IsZero() || t.Type == Compacted && w.Links[j].Key == "" {
			return &Error{Kind: ErrInvalid, Thing: "topic " + w.Topic, Field: fmt.Sprintf("links[%d]", j), Msg: "needs a place to link to, and a key in a compacted topic"}
		}
	}
	keyless := uint32(0) // the queue of all that have no key
	if t.Queues > 1 && (slices.ContainsFunc(w.Events, func(ev event.Event) bool { return ev.Key == "" }) ||
		slices.ContainsFunc(w.Links, func(l Link) bool { return l.Key == "" })) {
		keyless = t.turn.Add(1) % uint32(t.Queues)
	}
	e.items(t, keyless, frame.Records, len(w.Events), func(j int) string { return w.Events[j].Key }, func(prev, j int) {
		var p *event.Event
		if prev >= 0 {
			p = &w.Events[prev]
		}
		e.buf = event.AppendRecord(e.buf, p, &w.Events[j])
	}, func(j int) int { return w.Events[j].Size() })
	e.items(t, keyless, frame.Links, len(w.Links), func(j int) string { return w.Links[j].Key }, func(_, j int) {
		e.buf = frame.AppendLink(e.buf, &w.Links[j])
	}, func(j int) int { return 64 + len(w.Links[j].Key) })
	return nil
}

// items encodes n items of one kind into runs, a queue at a time, and notes
// their order.
func (e *encoder) items(t *topicState, keyless uint32, kind byte, n int, key func(int) string, put func(prev, j int), size func(int) int) {
	if n == 0 {
		return
	}
	queues := make([]uint32, n) // of each item
	spread := false
	for j := range n {
		switch k := key(j); {
		case t.Queues == 1:
		case k != "":
			queues[j] = uint32(xxhash.Sum64String(k) % uint64(t.Queues))
		default:
			queues[j] = keyless
		}
		spread = spread || queues[j] != queues[0]
	}
	runOf := make([]uint32, n)
	if !spread {
		e.queue(t, kind, queues[0], runOf, func(yield func(int) bool) {
			for j := range n {
				if !yield(j) {
					return
				}
			}
		}, put, size)
	} else {
		byQueue := make(map[uint32][]int)
		var seen []uint32
		for j, q := range queues {
			if byQueue[q] == nil {
				seen = append(seen, q)
			}
			byQueue[q] = append(byQueue[q], j)
		}
		for _, q := range seen {
			e.queue(t, kind, q, runOf, slices.Values(byQueue[q]), put, size)
		}
	}
	for _, r := range runOf {
		if k := len(e.order); k > 0 && e.order[k-1].Run == r {
			e.order[k-1].N++
		} else {
			e.order = append(e.order, frame.Part{Run: r, N: 1})
		}
	}
}

// queue encodes the items j of one queue; runOf learns where each went.
func (e *encoder) queue(t *topicState, kind byte, q uint32, runOf []uint32, items func(func(int) bool), put func(prev, j int), size func(int) int) {
	var h *frame.Run
	prev := -1
	for j := range items {
		full := h != nil && (h.Count == frame.MaxRunRecords || h.Compacted() || len(e.buf)-int(h.Off)+size(j) > frame.MaxRunBytes)
		if h == nil || full {
			h, prev = e.open(frame.Run{Queue: index.QueueID{Topic: t.ID, Queue: q}, Kind: kind}), -1
			if t.Type == Compacted {
				h.Flags |= frame.Compacted
			}
			if t.own() {
				h.Flags |= frame.Own
			}
		}
		put(prev, j)
		prev = j
		h.Count++
		runOf[j] = uint32(len(e.runs) - 1)
	}
	e.out.sync = e.out.sync || t.Durability != Async
	e.out.links = e.out.links || kind == frame.Links
}

// save turns a checkpoint into keyed records of the checkpoint topics. They are
// the checkpoint, there is no second place (DESIGN idea 4).
func (e *encoder) save(c *Checkpoint) error {
	e.out.owners = append(e.out.owners, c.Owner)
	if c.Positions != nil {
		return e.positions(c)
	}
	rec := savedRecord{Group: c.Group, Slot: c.Slot, Next: c.Next, Epoch: c.Epoch, Follows: c.Follows, Reset: e.out.reset}
	if topic, queue, ok := splitSlot(c.Slot); ok {
		if t := e.ts.byName[topic]; t != nil {
			rec.TopicID = t.ID
			if t.Consumed && c.Follows == "" {
				// The records before the checkpoint have served.
				e.open(frame.Run{Queue: index.QueueID{Topic: t.ID, Queue: uint32(queue)}, Kind: frame.Bound, First: c.Next})
			}
		}
	}
	data, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("checkpoint of %s: %w", c.Group, err)
	}
	return e.keyed(TopicOffsets, "millrace.checkpoint", "/groups/"+c.Group, c.Group+"/"+c.Slot, data)
}

func (e *encoder) positions(c *Checkpoint) error {
	for _, part := range slices.Sorted(maps.Keys(c.Positions)) {
		off := c.Positions[part]
		var data []byte
		if off != nil {
			if !json.Valid(off) {
				return &Error{Kind: ErrInvalid, Thing: "group " + c.Group, Field: "positions." + part, Msg: "is not JSON"}
			}
			data = off
		}
		if err := e.keyed(TopicPositions, "millrace.position", "/groups/"+c.Group, c.Group+"/"+part, data); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) state(state []Keyed) error {
	for i := range state {
		s := &state[i]
		if s.Space == "" || s.Key == "" {
			return &Error{Kind: ErrInvalid, Thing: "batch", Field: fmt.Sprintf("state[%d]", i), Msg: "needs a space and a key"}
		}
		if err := e.keyed(TopicState, "millrace.state", "/state/"+s.Space, s.Space+"/"+s.Key, s.Value); err != nil {
			return err
		}
	}
	return nil
}

// keyed appends one record of Millrace's own to a compacted topic; data nil is
// a tombstone.
func (e *encoder) keyed(topic, typ, source, key string, data []byte) error {
	t := e.ts.byName[topic]
	if t == nil {
		return noTopic(topic)
	}
	ev := event.Event{ID: strconv.FormatUint(e.bus.ids.Add(1), 36), Source: source, Type: typ, Key: key, Data: data, ContentType: "application/octet-stream"}
	if typ != "millrace.state" {
		ev.ContentType = "application/json"
	}
	e.open(frame.Run{
		Queue: index.QueueID{Topic: t.ID, Queue: uint32(xxhash.Sum64String(key) % uint64(t.Queues))},
		Kind:  frame.Records, Flags: frame.Compacted | frame.Own, Count: 1,
	})
	e.buf = event.AppendRecord(e.buf, nil, &ev)
	e.out.sync = true
	return nil
}

// finish closes the payload.
func (e *encoder) finish(id string) (*pending, error) {
	ends := len(e.buf)
	e.buf = frame.AppendTail(e.buf, id, e.order)
	if n := int64(len(e.buf)); n > 2*e.bus.o.MaxEvent {
		return nil, &Error{Kind: ErrTooLarge, Thing: "batch", Msg: fmt.Sprintf("takes %d bytes, more than the limit of %d: split it", n, 2*e.bus.o.MaxEvent)}
	}
	frame.PutHeader(e.buf, id, len(e.runs))
	for i := len(e.runs) - 1; i >= 0; i-- {
		h := &e.runs[i]
		h.Body = e.buf[h.Off+frame.RunHeader : ends : ends]
		ends = int(h.Off)
		h.Put(e.buf[h.Off:])
	}
	e.out.payload = e.buf
	e.out.p = frame.Payload{ID: id, Order: e.order, Runs: e.runs}
	e.out.size = int64(len(e.buf))
	return e.out, nil
}

// savedRecord is a checkpoint's record as it is stored.
type savedRecord struct {
	Group   string `json:"group"`
	Slot    string `json:"slot"`
	TopicID uint64 `json:"topic_id,omitempty"`
	Next    int64  `json:"next"`
	Epoch   uint64 `json:"epoch"`
	Follows string `json:"follows,omitempty"`
	Reset   bool   `json:"reset,omitempty"`
}

// splitSlot reads "topic/queue".
func splitSlot(slot string) (topic string, queue int, ok bool) {
	i := strings.LastIndexByte(slot, '/')
	if i <= 0 {
		return "", 0, false
	}
	q, err := strconv.Atoi(slot[i+1:])
	return slot[:i], q, err == nil && q >= 0
}
