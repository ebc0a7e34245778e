package index

import (
	"encoding/binary"
	"errors"
)

// errValue says that a stored value is not what this code writes.
var errValue = errors.New("index: malformed value; delete the views directory, it is rebuilt from the log")

// Run says where consecutive records of a queue are. In a compacted topic each
// record is a run of its own.
type Run struct {
	First  int64
	Count  uint32
	Pos    uint64 // of the frame in the log
	Off    uint32 // of the run's header in the frame's payload
	Bytes  uint32 // size in the log
	Stored int64  // Unix nanoseconds
	Own    bool   // no link may refer to it
	Links  bool   // its records are links
	Pins   []Pin  // what they refer to
	Keyed  bool   // the topic is compacted; Count is 1
	Key    string // the record's key there
}

// Last is the offset of the run's last record.
func (r *Run) Last() int64 { return r.First + int64(r.Count) - 1 }

// Pin is a range of offsets [Min, Max] of a queue that links refer to. Max-Min
// is less than PinSpan.
type Pin struct {
	Queue    QueueID
	Min, Max int64
}

// PinSpan bounds a pin's width, and so how far back a search for pins looks.
const PinSpan = 4096

// Queue is what a queue holds: offsets [First, Next) and the bytes of its live runs.
type Queue struct {
	First, Next int64
	Bytes       int64
}

// Known is the stored outcome of a batch with an id.
type Known struct {
	Pos    uint64 // of the frame that says so
	Stored int64  // when the batch was stored, Unix nanoseconds
	Parts  []Part // where its events and links went, in the batch's order
}

// Part is consecutive items of a batch at consecutive offsets of a queue.
type Part struct {
	Queue QueueID
	First int64
	Count int64
}

const (
	runLinks = 1 << iota
	runKeyed
	runOwn
)

func (r *Run) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(r.Count))
	b = binary.AppendUvarint(b, r.Pos)
	b = binary.AppendUvarint(b, uint64(r.Off))
	b = binary.AppendUvarint(b, uint64(r.Bytes))
	b = binary.AppendVarint(b, r.Stored)
	var flags uint64
	if r.Links {
		flags |= runLinks
	}
	if r.Keyed {
		flags |= runKeyed
	}
	if r.Own {
		flags |= runOwn
	}
	b = binary.AppendUvarint(b, flags)
	if r.Links {
		b = binary.AppendUvarint(b, uint64(len(r.Pins)))
		for _, p := range r.Pins {
			b = binary.AppendUvarint(b, p.Queue.Topic)
			b = binary.AppendUvarint(b, uint64(p.Queue.Queue))
			b = binary.AppendUvarint(b, uint64(p.Min))
			b = binary.AppendUvarint(b, uint64(p.Max-p.Min))
		}
	}
	if r.Keyed {
		b = append(b, r.Key...)
	}
	return b
}

func decodeRun(first int64, b []byte) (Run, error) {
	d := dec{b: b}
	r := Run{
		First: first, Count: uint32(d.u()), Pos: d.u(), Off: uint32(d.u()),
		Bytes: uint32(d.u()), Stored: d.i(),
	}
	flags := d.u()
	r.Own = flags&runOwn != 0
	if flags&runLinks != 0 {
		r.Links = true
		n := d.u()
		for range n {
			p := Pin{Queue: QueueID{Topic: d.u(), Queue: uint32(d.u())}, Min: int64(d.u())}
			p.Max = p.Min + int64(d.u())
			if d.bad {
				break
			}
			r.Pins = append(r.Pins, p)
		}
	}
	if flags&runKeyed != 0 {
		r.Keyed, r.Key = true, string(d.b)
	}
	return r, d.err()
}

func (q *Queue) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(q.First))
	b = binary.AppendUvarint(b, uint64(q.Next))
	return binary.AppendUvarint(b, uint64(q.Bytes))
}

func decodeQueue(b []byte) (Queue, error) {
	d := dec{b: b}
	q := Queue{First: int64(d.u()), Next: int64(d.u()), Bytes: int64(d.u())}
	return q, d.err()
}

// AppendParts appends parts in the form that Known and the log share.
func AppendParts(b []byte, parts []Part) []byte {
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for _, p := range parts {
		b = binary.AppendUvarint(b, p.Queue.Topic)
		b = binary.AppendUvarint(b, uint64(p.Queue.Queue))
		b = binary.AppendUvarint(b, uint64(p.First))
		b = binary.AppendUvarint(b, uint64(p.Count))
	}
	return b
}

// DecodeParts reads what AppendParts wrote and returns what follows.
func DecodeParts(b []byte) ([]Part, []byte, error) {
	d := dec{b: b}
	parts := d.parts()
	return parts, d.b, d.err()
}

func (k *Known) append(b []byte) []byte {
	b = binary.AppendUvarint(b, k.Pos)
	b = binary.AppendVarint(b, k.Stored)
	return AppendParts(b, k.Parts)
}

func decodeKnown(b []byte) (Known, error) {
	d := dec{b: b}
	k := Known{Pos: d.u(), Stored: d.i(), Parts: d.parts()}
	return k, d.err()
}

type dec struct {
	b   []byte
	bad bool
}

func (d *dec) u() uint64 {
	v, w := binary.Uvarint(d.b)
	if w <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[w:]
	return v
}

func (d *dec) i() int64 {
	v, w := binary.Varint(d.b)
	if w <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[w:]
	return v
}

func (d *dec) parts() []Part {
	n := d.u()
	var parts []Part
	for range n {
		p := Part{Queue: QueueID{Topic: d.u(), Queue: uint32(d.u())}, First: int64(d.u()), Count: int64(d.u())}
		if d.bad {
			return nil
		}
		parts = append(parts, p)
	}
	return parts
}

func (d *dec) err() error {
	if d.bad {
		return errValue
	}
	return nil
}
