// Package frame is what a frame of the log holds, and how it becomes views:
// runs of records, of links and of what the cleaner notes, in one atomic
// payload. FORMAT.md beside this file specifies the bytes. The package does no
// I/O of its own.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"millrace/bus/event"
	"millrace/bus/index"
)

// Kinds of frames in the log.
const (
	Batch = 1 // appended
	Moved = 2 // copied forward by the cleaner
)

// Kinds of runs in a frame.
const (
	Records   = iota // body: records (event.AppendRecord)
	Links            // body: links
	Bound            // no body: the queue holds [first, next); next stands in stored
	Drop             // no body: the topic is gone
	IDs              // body: known batch ids
	ForgetIDs        // body: batch ids to forget
	ForgetKey        // no body: the record at first, an old tombstone, is gone
	Forget           // no body: the dead run at first is gone
)

const (
	version = 1

	// Header is the length of a payload's header.
	Header = 8
	// RunHeader is the length of a run's header.
	RunHeader = 40

	// Compacted is the flag of a run of a compacted topic: it has one record.
	Compacted = 1
	// Own is the flag of a run that no link may refer to.
	Own = 2

	// MaxRunRecords bounds a run, and so what a look-up decodes.
	MaxRunRecords = 1024
	// MaxRunBytes does too.
	MaxRunBytes = 1 << 20
)

// ErrPayload says that bytes are not a frame's payload.
var ErrPayload = errors.New("malformed frame payload")

// Run is consecutive records of one queue, or what is said of that queue.
type Run struct {
	Queue  index.QueueID
	Kind   byte
	Flags  byte
	First  int64 // offset of the first record; the committer sets it
	Stored int64 // Unix nanoseconds; the committer sets it. Of a Bound: next
	Count  uint32
	Off    uint32 // of the run's header in the payload
	Body   []byte
}

// Compacted reports whether the run belongs to a compacted topic.
func (h *Run) Compacted() bool { return h.Flags&Compacted != 0 }

// HasRecords reports whether the run takes offsets of its queue.
func (h *Run) HasRecords() bool { return h.Kind == Records || h.Kind == Links }

// Put writes the header at b[0:RunHeader]; the body's length is len(h.Body).
func (h *Run) Put(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b, h.Queue.Topic)
	le.PutUint32(b[8:], h.Queue.Queue)
	b[12], b[13], b[14], b[15] = h.Kind, h.Flags, 0, 0
	le.PutUint64(b[16:], uint64(h.First))
	le.PutUint64(b[24:], uint64(h.Stored))
	le.PutUint32(b[32:], h.Count)
	le.PutUint32(b[36:], uint32(len(h.Body)))
}

// ParseRun reads the run whose header stands at off; Body shares the payload.
func ParseRun(payload []byte, off uint32) (Run, error) {
	if uint64(off)+RunHeader > uint64(len(payload)) {
		return Run{}, ErrPayload
	}
	b := payload[off:]
	le := binary.LittleEndian
	h := Run{
		Queue: index.QueueID{Topic: le.Uint64(b), Queue: le.Uint32(b[8:])},
		Kind:  b[12], Flags: b[13],
		First: int64(le.Uint64(b[16:])), Stored: int64(le.Uint64(b[24:])),
		Count: le.Uint32(b[32:]), Off: off,
	}
	n := le.Uint32(b[36:])
	if uint64(n) > uint64(len(b)-RunHeader) || h.First < 0 {
		return Run{}, ErrPayload
	}
	h.Body = b[RunHeader : RunHeader+n : RunHeader+n]
	return h, nil
}

// Payload is one atomic batch. Invariant 2.
type Payload struct {
	ID    string // of the batch; may be empty
	Order []Part // how the batch's items map to runs; only stored with an ID
	Runs  []Run
}

// Part says that the next N items of the batch are the next N of run Run.
type Part struct{ Run, N uint32 }

// Parse reads a payload. What it returns shares b, which must not change.
func Parse(b []byte) (p Payload, err error) {
	if len(b) < Header || b[0] != version {
		return p, ErrPayload
	}
	idLen := int(binary.LittleEndian.Uint16(b[2:]))
	n := binary.LittleEndian.Uint32(b[4:])
	if uint64(n)*RunHeader > uint64(len(b)) {
		return p, ErrPayload
	}
	off := Header
	p.Runs = make([]Run, 0, n)
	for range n {
		h, err := ParseRun(b, uint32(off))
		if err != nil {
			return p, err
		}
		p.Runs = append(p.Runs, h)
		off += RunHeader + len(h.Body)
	}
	tail := b[off:]
	if len(tail) < idLen {
		return p, ErrPayload
	}
	p.ID = string(tail[:idLen])
	d := uvarints{b: tail[idLen:]}
	if idLen > 0 {
		for range d.next() {
			part := Part{Run: uint32(d.next()), N: uint32(d.next())}
			if d.bad || part.Run >= n {
				return p, ErrPayload
			}
			p.Order = append(p.Order, part)
		}
	}
	if d.bad || len(d.b) > 0 {
		return p, ErrPayload
	}
	return p, nil
}

// PutHeader fills in the first Header bytes.
func PutHeader(b []byte, id string, runs int) {
	b[0], b[1] = version, 0
	binary.LittleEndian.PutUint16(b[2:], uint16(len(id)))
	binary.LittleEndian.PutUint32(b[4:], uint32(runs))
}

// AppendTail appends what follows the runs.
func AppendTail(b []byte, id string, order []Part) []byte {
	b = append(b, id...)
	if id != "" {
		b = binary.AppendUvarint(b, uint64(len(order)))
		for _, o := range order {
			b = appendUvarints(b, uint64(o.Run), uint64(o.N))
		}
	}
	return b
}

// AppendRun appends a whole run and sets its off.
func AppendRun(b []byte, h *Run) []byte {
	h.Off = uint32(len(b))
	b = append(b, make([]byte, RunHeader)...)
	h.Put(b[h.Off:])
	return append(b, h.Body...)
}

// OnlyRecord reads the only record of a compacted topic's run.
func OnlyRecord(h *Run) (key string, tombstone bool, err error) {
	if h.Kind == Links {
		l, _, err := DecodeLink(h.Body)
		return l.Key, false, err
	}
	var e event.Event
	_, err = event.DecodeRecord(h.Body, &e)
	return e.Key, e.Data == nil, err
}

func appendUvarints(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

type uvarints struct {
	b   []byte
	bad bool
}

func (d *uvarints) next() uint64 {
	v, w := binary.Uvarint(d.b)
	if w <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[w:]
	return v
}

// Bad says which frame of the log makes no sense.
func Bad(pos uint64, err error) error {
	return fmt.Errorf("frame at log position %d: %w", pos, err)
}
