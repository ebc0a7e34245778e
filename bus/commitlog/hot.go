package commitlog

import (
	"sort"
	"sync"
)

// hotOverhead is what a kept frame costs beside its payload, in bytes.
const hotOverhead = 64

// hot keeps the most recent synced frames, in order of position.
type hot struct {
	max int64 // bytes; none are kept when it is not positive

	mu    sync.RWMutex
	ring  []Frame // the oldest at head; a length that is a power of two
	head  int
	n     int
	bytes int64
}

func (h *hot) at(i int) *Frame { return &h.ring[(h.head+i)&(len(h.ring)-1)] }

// add takes frames that follow those added before.
func (h *hot) add(frames []Frame) {
	if h.max <= 0 || len(frames) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range frames {
		if h.n == len(h.ring) {
			h.grow()
		}
		*h.at(h.n) = f
		h.n++
		h.bytes += int64(len(f.Payload)) + hotOverhead
		for h.bytes > h.max {
			oldest := h.at(0)
			h.bytes -= int64(len(oldest.Payload)) + hotOverhead
			*oldest = Frame{}
			h.head = (h.head + 1) & (len(h.ring) - 1)
			h.n--
		}
	}
}

func (h *hot) grow() {
	ring := make([]Frame, max(64, 2*len(h.ring)))
	for i := range h.n {
		ring[i] = *h.at(i)
	}
	h.ring, h.head = ring, 0
}

// search returns the index of the first frame at or after pos.
func (h *hot) search(pos Position) int {
	return sort.Search(h.n, func(i int) bool { return h.at(i).Pos >= pos })
}

// get returns the frame at pos, if it is kept.
func (h *hot) get(pos Position) (Frame, bool) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if i := h.search(pos); i < h.n {
		if f := h.at(i); f.Pos == pos {
			return *f, true
		}
	}
	return Frame{}, false
}

// drop forgets the frames in [from, to).
func (h *hot) drop(from, to Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lo, hi := h.search(from), h.search(to)
	for i := lo; i < hi; i++ {
		h.bytes -= int64(len(h.at(i).Payload)) + hotOverhead
	}
	for i := hi; i < h.n; i++ {
		*h.at(i - hi + lo) = *h.at(i)
	}
	for i := h.n - (hi - lo); i < h.n; i++ {
		*h.at(i) = Frame{}
	}
	h.n -= hi - lo
}

func (h *hot) size() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.bytes
}
