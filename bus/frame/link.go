package frame

import (
	"encoding/binary"
	"unsafe"

	"millrace/bus/event"
	"millrace/bus/index"
)

// Link places the record at To in another queue. Overlay is laid over the
// event's extensions when it is read; Key chooses the queue and, in a compacted
// topic, is the key; Attempt counts deliveries so far.
type Link struct {
	To      event.Ref
	Key     string
	Attempt int
	Overlay []event.Attr
}

// AppendLink appends one link of a run: length uvarint, then the place linked
// to, the attempt, the key and the overlay.
func AppendLink(b []byte, l *Link) []byte {
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

// DecodeLink reads one link; its strings share b's memory.
func DecodeLink(b []byte) (l Link, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return l, nil, ErrPayload
	}
	rest = b[w+int(n):]
	d := uvarints{b: b[w : w+int(n)]}
	l.To = event.Ref{Topic: d.next(), Queue: int(d.next()), Offset: int64(d.next())}
	l.Attempt = int(d.next())
	k := d.next()
	if d.bad || k > uint64(len(d.b)) {
		return l, nil, ErrPayload
	}
	if k > 0 {
		l.Key = unsafe.String(&d.b[0], int(k))
	}
	l.Overlay, d.b, err = event.DecodeAttrs(d.b[k:])
	if err == nil && len(d.b) > 0 {
		err = ErrPayload
	}
	return l, rest, err
}

// Pins returns what a run of links pins, as few ranges as PinSpan allows.
func Pins(body []byte, count uint32) ([]index.Pin, error) {
	var pins []index.Pin
	for range count {
		l, rest, err := DecodeLink(body)
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
		return nil, ErrPayload
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
