package bus

import (
	"millrace/bus/event"
	"millrace/bus/index"
)

// apply brings the views up to a frame: the one place where the log becomes
// views, on the append path and in recovery alike.
func apply(t *index.Txn, kind byte, pos uint64, p *payload) error {
	var stored int64
	for i := range p.runs {
		h := &p.runs[i]
		switch h.kind {
		case runRecords, runLinks:
			r, err := indexRun(h, pos)
			if err != nil {
				return badFrame(pos, err)
			}
			if kind == frameMoved {
				t.Move(h.id, r)
			} else {
				t.Append(h.id, r)
			}
		case runBound:
			t.Bound(h.id, h.first, h.stored)
		case runDrop:
			t.Drop(h.id.Topic)
		case runIDs:
			ids, err := decodeIDs(h)
			if err != nil {
				return badFrame(pos, err)
			}
			for id, k := range ids {
				k.Pos = pos
				t.Know(id, k)
			}
		case runForgetIDs:
			ids, err := decodeIDs(h)
			if err != nil {
				return badFrame(pos, err)
			}
			for id, k := range ids {
				t.ForgetID(id, k.Pos)
			}
		case runForgetKey:
			t.ForgetKey(h.id, h.first)
		default:
			return badFrame(pos, errFrame)
		}
		if h.kind == runRecords || h.kind == runLinks {
			stored = h.stored
		}
	}
	if p.id != "" {
		t.Know(p.id, index.Known{Pos: pos, Stored: stored, Parts: p.parts()})
	}
	return nil
}

// indexRun is what the views hold of a run.
func indexRun(h *runHead, pos uint64) (index.Run, error) {
	r := index.Run{
		First: h.first, Count: h.count, Pos: pos, Off: h.off,
		Bytes: uint32(runHeader + len(h.body)), Stored: h.stored,
	}
	var err error
	if h.kind == runLinks {
		r.Links = true
		if r.Pins, err = linkPins(h.body, h.count); err != nil {
			return r, err
		}
	}
	if h.compacted() {
		r.Keyed = true
		if h.count != 1 {
			return r, errFrame
		}
		if r.Key, _, err = firstRecord(h); err != nil {
			return r, err
		}
	}
	return r, nil
}

// parts says where the batch's items went, in its order.
func (p *payload) parts() []index.Part {
	parts := make([]index.Part, 0, len(p.order))
	done := make([]int64, len(p.runs))
	for _, o := range p.order {
		h := &p.runs[o.run]
		parts = append(parts, index.Part{Queue: h.id, First: h.first + done[o.run], Count: int64(o.n)})
		done[o.run] += int64(o.n)
	}
	return parts
}

// encodeIDs is the body of runIDs and runForgetIDs: (id, Known) each.
func encodeIDs(b []byte, id string, k index.Known) []byte {
	b = event.AppendAttrs(b, []event.Attr{{Name: "id", Value: id}})
	b = appendUvarints(b, k.Pos, uint64(k.Stored))
	return index.AppendParts(b, k.Parts)
}

func decodeIDs(h *runHead) (map[string]index.Known, error) {
	ids := make(map[string]index.Known, min(h.count, 4096))
	b := h.body
	for range h.count {
		attrs, rest, err := event.DecodeAttrs(b)
		if err != nil || len(attrs) != 1 {
			return nil, errFrame
		}
		d := uvarints{b: rest}
		k := index.Known{Pos: d.next(), Stored: int64(d.next())}
		if d.bad {
			return nil, errFrame
		}
		if k.Parts, b, err = index.DecodeParts(d.b); err != nil {
			return nil, err
		}
		ids[attrs[0].Value] = k
	}
	if len(b) > 0 {
		return nil, errFrame
	}
	return ids, nil
}
