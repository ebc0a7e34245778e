package loop

import (
	"millrace/bus"
	"millrace/bus/event"
)

// Writer gathers events and links per topic and keeps its memory between batches.
type Writer struct {
	list []bus.Write
	n    int // in use
	last int
}

// Reset begins a new batch.
func (w *Writer) Reset() {
	w.list = w.list[:cap(w.list)]
	w.n, w.last = 0, 0
}

// at is the write of a topic.
func (w *Writer) at(topic string) *bus.Write {
	if w.last < w.n && w.list[w.last].Topic == topic {
		return &w.list[w.last]
	}
	for i := range w.n {
		if w.list[i].Topic == topic {
			w.last = i
			return &w.list[i]
		}
	}
	if w.n == len(w.list) {
		w.list = append(w.list, bus.Write{})
	}
	w.last = w.n
	w.n++
	x := &w.list[w.last]
	x.Topic, x.Events, x.Links = topic, x.Events[:0], x.Links[:0]
	return x
}

// Event is a new event of the topic's write, to be filled at once.
func (w *Writer) Event(topic string) *event.Event {
	x := w.at(topic)
	x.Events = append(x.Events, event.Event{})
	return &x.Events[len(x.Events)-1]
}

// Link is a new link of the topic's write, to be filled at once.
func (w *Writer) Link(topic string) *bus.Link {
	x := w.at(topic)
	x.Links = append(x.Links, bus.Link{})
	return &x.Links[len(x.Links)-1]
}

// Used are the writes of the batch.
func (w *Writer) Used() []bus.Write { return w.list[:w.n] }
