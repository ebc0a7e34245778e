package bus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"millrace/bus/event"
	"millrace/bus/index"
)

// Kinds of frames in the log. FORMAT.md beside this file specifies the payload.
const (
	frameBatch = 1 // appended
	frameMoved = 2 // copied forward by the cleaner
)

// Kinds of runs in a frame.
const (
	runRecords   = iota // body: records (event.AppendRecord)
	runLinks            // body: links
	runBound            // no body: the queue holds [first, next); next stands in stored
	runDrop             // no body: the topic is gone
	runIDs              // body: known batch ids
	runForgetIDs        // body: batch ids to forget
	runForgetKey        // no body: the record at first, an old tombstone, is gone
)

const (
	payloadVersion = 1
	payloadHeader  = 8  // version u8, reserved u8, id length u16, runs u32
	runHeader      = 40 // see runHead.put

	runCompacted = 1 // flag: the topic is compacted

	maxRunRecords = 1024
	maxRunBytes   = 1 << 20
)

var errFrame = errors.New("malformed frame payload")

// runHead is the header of one run in a payload.
type runHead struct {
	id     index.QueueID
	kind   byte
	flags  byte
	first  int64 // set by the committer
	stored int64 // Unix nanoseconds, set by the committer
	count  uint32
	off    uint32 // of the header in the payload
	body   []byte
}

func (h *runHead) compacted() bool { return h.flags&runCompacted != 0 }

// put writes the header at b[0:runHeader]; the body's length is len(h.body).
func (h *runHead) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b, h.id.Topic)
	le.PutUint32(b[8:], h.id.Queue)
	b[12], b[13], b[14], b[15] = h.kind, h.flags, 0, 0
	le.PutUint64(b[16:], uint64(h.first))
	le.PutUint64(b[24:], uint64(h.stored))
	le.PutUint32(b[32:], h.count)
	le.PutUint32(b[36:], uint32(len(h.body)))
}

func parseRunHead(payload []byte, off uint32) (runHead, error) {
	if uint64(off)+runHeader > uint64(len(payload)) {
		return runHead{}, errFrame
	}
	b := payload[off:]
	le := binary.LittleEndian
	h := runHead{
		id:   index.QueueID{Topic: le.Uint64(b), Queue: le.Uint32(b[8:])},
		kind: b[12], flags: b[13],
		first: int64(le.Uint64(b[16:])), stored: int64(le.Uint64(b[24:])),
		count: le.Uint32(b[32:]), off: off,
	}
	n := le.Uint32(b[36:])
	if uint64(n) > uint64(len(b)-runHeader) || h.first < 0 {
		return runHead{}, errFrame
	}
	h.body = b[runHeader : runHeader+n : runHeader+n]
	return h, nil
}

// payload is a parsed frame payload.
type payload struct {
	id    string
	order []orderPart // how the batch's items map to runs; only with an id
	runs  []runHead
}

// orderPart: the next n items of the batch are the next n of run.
type orderPart struct{ run, n uint32 }

func parsePayload(b []byte) (p payload, err error) {
	if len(b) < payloadHeader || b[0] != payloadVersion {
		return p, errFrame
	}
	idLen := int(binary.LittleEndian.Uint16(b[2:]))
	n := binary.LittleEndian.Uint32(b[4:])
	off := payloadHeader
	if len(b)-off < idLen || uint64(n)*runHeader > uint64(len(b)) {
		return p, errFrame
	}
	p.id = string(b[off : off+idLen])
	off += idLen
	if idLen > 0 {
		d := uvarints{b: b[off:]}
		for range d.next() {
			part := orderPart{run: uint32(d.next()), n: uint32(d.next())}
			if d.bad || part.run >= n {
				return p, errFrame
			}
			p.order = append(p.order, part)
		}
		off = len(b) - len(d.b)
	}
	p.runs = make([]runHead, 0, n)
	for range n {
		h, err := parseRunHead(b, uint32(off))
		if err != nil {
			return p, err
		}
		p.runs = append(p.runs, h)
		off += runHeader + len(h.body)
	}
	if off != len(b) {
		return p, errFrame
	}
	return p, nil
}

// appendPayloadHead begins a payload; runs follow.
func appendPayloadHead(b []byte, id string, order []orderPart, runs int) []byte {
	b = append(b, payloadVersion, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(id)))
	b = binary.LittleEndian.AppendUint32(b, uint32(runs))
	b = append(b, id...)
	if id != "" {
		b = binary.AppendUvarint(b, uint64(len(order)))
		for _, o := range order {
			b = binary.AppendUvarint(b, uint64(o.run))
			b = binary.AppendUvarint(b, uint64(o.n))
		}
	}
	return b
}

// appendRun appends a whole run and sets its off.
func appendRun(b []byte, h *runHead) []byte {
	h.off = uint32(len(b))
	b = append(b, make([]byte, runHeader)...)
	h.put(b[h.off:])
	return append(b, h.body...)
}

// appendLink appends one link of a run: length uvarint, then the place linked
// to, the attempt, the key and the overlay.
func appendLink(b []byte, l *Link) []byte {
	var tmp [64]byte
	t := binary.AppendUvarint(tmp[:0], l.To.Topic)
	t = binary.AppendUvarint(t, uint64(l.To.Queue))
	t = binary.AppendUvarint(t, uint64(l.To.Offset))
	t = binary.AppendUvarint(t, uint64(l.Attempt))
	t = binary.AppendUvarint(t, uint64(len(l.Key)))
	t = append(t, l.Key...)
	t = event.AppendAttrs(t, l.Overlay)
	b = binary.AppendUvarint(b, uint64(len(t)))
	return append(b, t...)
}

// decodeLink reads one link; its strings share b's memory.
func decodeLink(b []byte) (l Link, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return l, nil, errFrame
	}
	rest = b[w+int(n):]
	d := uvarints{b: b[w : w+int(n)]}
	l.To = event.Ref{Topic: d.next(), Queue: int(d.next()), Offset: int64(d.next())}
	l.Attempt = int(d.next())
	k := d.next()
	if d.bad || k > uint64(len(d.b)) {
		return l, nil, errFrame
	}
	if k > 0 {
		l.Key = unsafe.String(&d.b[0], int(k))
	}
	l.Overlay, d.b, err = event.DecodeAttrs(d.b[k:])
	if err == nil && len(d.b) > 0 {
		err = errFrame
	}
	return l, rest, err
}

// linkPins returns what a run of links pins, as few ranges as PinSpan allows.
func linkPins(body []byte, count uint32) ([]index.Pin, error) {
	var pins []index.Pin
	for range count {
		l, rest, err := decodeLink(body)
		if err != nil {
			return nil, err
		}
		body = rest
		q := index.QueueID{Topic: l.To.Topic, Queue: uint32(l.To.Queue)}
		done := false
		for i := range pins {
			p := &pins[i]
			lo, hi := min(p.Min, l.To.Offset), max(p.Max, l.To.Offset)
			if p.Queue == q && hi-lo < index.PinSpan {
				p.Min, p.Max, done = lo, hi, true
				break
			}
		}
		if !done {
			pins = append(pins, index.Pin{Queue: q, Min: l.To.Offset, Max: l.To.Offset})
		}
	}
	if len(body) > 0 {
		return nil, errFrame
	}
	// Two pins may have grown to the same least offset: one entry holds both.
	return mergePins(pins), nil
}

func mergePins(pins []index.Pin) []index.Pin {
	out := pins[:0]
next:
	for _, p := range pins {
		for i := range out {
			if out[i].Queue == p.Queue && out[i].Min == p.Min {
				out[i].Max = max(out[i].Max, p.Max)
				continue next
			}
		}
		out = append(out, p)
	}
	return out
}

// firstRecord reads the only record of a compacted topic's run.
func firstRecord(h *runHead) (key string, tombstone bool, err error) {
	if h.kind == runLinks {
		l, _, err := decodeLink(h.body)
		return l.Key, false, err
	}
	var e event.Event
	_, err = event.DecodeRecord(h.body, &e)
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

// badFrame says which frame of the log makes no sense.
func badFrame(pos uint64, err error) error {
	return fmt.Errorf("frame at log position %d: %w: %w", pos, ErrCorrupt, err)
}
