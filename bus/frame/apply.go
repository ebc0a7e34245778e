package frame

import (
	"millrace/bus/event"
	"millrace/bus/index"
)

// Apply brings the views up to a frame: the one place where the log becomes
// views, on the append path and in recovery alike.
func Apply(t *index.Txn, kind byte, pos uint64, p *Payload) error {
	var stored int64
	for i := range p.Runs {
		h := &p.Runs[i]
		switch h.Kind {
		case Records, Links:
			r, err := indexed(h, pos)
			if err != nil {
				return Bad(pos, err)
			}
			if kind == Moved {
				t.Move(h.Queue, r)
			} else {
				t.Append(h.Queue, r)
			}
		case Bound:
			t.Bound(h.Queue, h.First, h.Stored)
		case Drop:
			t.Drop(h.Queue.Topic)
		case IDs:
			ids, err := DecodeIDs(h)
			if err != nil {
				return Bad(pos, err)
			}
			for id, k := range ids {
				k.Pos = pos
				t.Know(id, k)
			}
		case ForgetIDs:
			ids, err := DecodeIDs(h)
			if err != nil {
				return Bad(pos, err)
			}
			for id, k := range ids {
				t.ForgetID(id, k.Pos)
			}
		case ForgetKey:
			t.ForgetKey(h.Queue, h.First)
		case Forget:
			t.Forget(h.Queue, h.First)
		default:
			return Bad(pos, ErrPayload)
		}
		if h.HasRecords() {
			stored = h.Stored
		}
	}
	if p.ID != "" {
		t.Know(p.ID, index.Known{Pos: pos, Stored: stored, Parts: p.Parts()})
	}
	return nil
}

// indexed is what the views hold of a run.
func indexed(h *Run, pos uint64) (index.Run, error) {
	r := index.Run{
		First: h.First, Count: h.Count, Pos: pos, Off: h.Off,
		Bytes: uint32(RunHeader + len(h.Body)), Stored: h.Stored,
		Own: h.Flags&Own != 0,
	}
	var err error
	if h.Kind == Links {
		r.Links = true
		if r.Pins, err = Pins(h.Body, h.Count); err != nil {
			return r, err
		}
	}
	if h.Compacted() {
		r.Keyed = true
		if h.Count != 1 {
			return r, ErrPayload
		}
		if r.Key, _, err = OnlyRecord(h); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Parts says where the batch's items went, in its order.
func (p *Payload) Parts() []index.Part {
	parts := make([]index.Part, 0, len(p.Order))
	done := make([]int64, len(p.Runs))
	for _, o := range p.Order {
		h := &p.Runs[o.Run]
		parts = append(parts, index.Part{Queue: h.Queue, First: h.First + done[o.Run], Count: int64(o.N)})
		done[o.Run] += int64(o.N)
	}
	return parts
}

// AppendID is the body of IDs and ForgetIDs: (id, Known) each.
func AppendID(b []byte, id string, k index.Known) []byte {
	b = event.AppendAttrs(b, []event.Attr{{Name: "id", Value: id}})
	b = appendUvarints(b, k.Pos, uint64(k.Stored))
	return index.AppendParts(b, k.Parts)
}

// DecodeIDs reads the body of an IDs or ForgetIDs run.
func DecodeIDs(h *Run) (map[string]index.Known, error) {
	ids := make(map[string]index.Known, min(h.Count, 4096))
	b := h.Body
	for range h.Count {
		attrs, rest, err := event.DecodeAttrs(b)
		if err != nil || len(attrs) != 1 {
			return nil, ErrPayload
		}
		d := uvarints{b: rest}
		k := index.Known{Pos: d.next(), Stored: int64(d.next())}
		if d.bad {
			return nil, ErrPayload
		}
		if k.Parts, b, err = index.DecodeParts(d.b); err != nil {
			return nil, err
		}
		ids[attrs[0].Value] = k
	}
	if len(b) > 0 {
		return nil, ErrPayload
	}
	return ids, nil
}
