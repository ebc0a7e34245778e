package frame

import (
	"container/list"
	"sync"
)

// Cache keeps payloads for readers that come back to them; the least recently
// used goes first. The zero value keeps one.
type Cache struct {
	Limit int64 // bytes

	mu    sync.Mutex
	size  int64
	order list.List // of *cached, most recent first
	byPos map[uint64]*list.Element
}

type cached struct {
	pos     uint64
	payload []byte
}

// Get returns the payload of the frame at pos, from read where the cache has it
// not. It must not be changed.
func (c *Cache) Get(pos uint64, read func(pos uint64) ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	if el := c.byPos[pos]; el != nil {
		c.order.MoveToFront(el)
		c.mu.Unlock()
		return el.Value.(*cached).payload, nil
	}
	c.mu.Unlock()
	payload, err := read(pos)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPos == nil {
		c.byPos = map[uint64]*list.Element{}
	}
	if c.byPos[pos] == nil {
		c.byPos[pos] = c.order.PushFront(&cached{pos: pos, payload: payload})
		c.size += int64(len(payload))
	}
	for c.size > c.Limit && c.order.Len() > 1 {
		el := c.order.Back()
		old := c.order.Remove(el).(*cached)
		delete(c.byPos, old.pos)
		c.size -= int64(len(old.payload))
	}
	return payload, nil
}
