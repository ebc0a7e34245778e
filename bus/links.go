package bus

import (
	"fmt"

	"millrace/bus/frame"
	"millrace/bus/index"
)

// checkLinks refuses a link to what is not there (any more): a link must never
// dangle, Invariant 8.
func (c *committer) checkLinks(p *pending) error {
	for i := range p.p.Runs {
		h := &p.p.Runs[i]
		if h.Kind != frame.Links {
			continue
		}
		pins, err := frame.Pins(h.Body, h.Count)
		if err != nil {
			return frame.Bad(0, err)
		}
		for _, pin := range pins {
			if t := c.bus.topics.Load().byID[pin.Queue.Topic]; t != nil && t.own() {
				return &Error{Kind: ErrInvalid, Thing: "topic " + c.topicName(h.Queue.Topic), Field: "link to " + t.Name, Msg: "its records cannot be linked to: link to their origin"}
			}
			if c.stale(pin.Queue.Topic) {
				c.flush()
				if c.broken != nil {
					return c.broken
				}
			}
			if err := c.checkPin(h, pin); err != nil {
				return err
			}
		}
	}
	return nil
}

// stale reports whether something written but not applied may change what is
// live in a topic.
func (c *committer) stale(topic uint64) bool {
	for _, w := range c.unapplied {
		for i := range w.p.Runs {
			if w.p.Runs[i].Queue.Topic == topic {
				return true
			}
		}
	}
	return false
}

func (c *committer) checkPin(h *frame.Run, pin index.Pin) error {
	runs, err := c.bus.index.Runs(pin.Queue, pin.Min, pin.Max+1, 0)
	if err != nil {
		return err
	}
	next := pin.Min // how far the runs cover the pin without a gap
	dense := true
	for i := range runs {
		dense = dense && runs[i].First <= next
		next = max(next, runs[i].Last()+1)
	}
	if dense && next > pin.Max {
		return nil
	}
	body := h.Body
	for range h.Count {
		l, rest, err := frame.DecodeLink(body)
		if err != nil {
			return frame.Bad(0, err)
		}
		body = rest
		if l.To.Topic != pin.Queue.Topic || uint32(l.To.Queue) != pin.Queue.Queue || l.To.Offset < pin.Min || l.To.Offset > pin.Max {
			continue
		}
		found := false
		for i := range runs {
			found = found || l.To.Offset >= runs[i].First && l.To.Offset <= runs[i].Last()
		}
		if !found {
			name, target := c.topicName(l.To.Topic), c.topicName(h.Queue.Topic)
			return &Error{Kind: ErrInvalid, Thing: "topic " + target, Field: fmt.Sprintf("link to %s/%d/%d", name, l.To.Queue, l.To.Offset), Msg: "there is no such record (any more)"}
		}
	}
	return nil
}

func (c *committer) topicName(id uint64) string {
	if t := c.bus.topics.Load().byID[id]; t != nil {
		return t.Name
	}
	return fmt.Sprintf("id %d", id)
}
