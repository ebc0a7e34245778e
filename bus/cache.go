package bus

import (
	"container/list"
	"sync"

	"millrace/bus/commitlog"
)

// frameCache keeps payloads of the log for readers that come back to them, the
// least recently used going first.
type frameCache struct {
	limit int64 // bytes

	mu    sync.Mutex
	size  int64
	order list.List // of *cached, most recent first
	byPos map[uint64]*list.Element
}

type cached struct {
	pos     uint64
	payload []byte
}

// get reads a frame's payload through the cache. It must not be changed.
func (c *frameCache) get(log *commitlog.Log, pos uint64) ([]byte, error) {
	c.mu.Lock()
	if el := c.byPos[pos]; el != nil {
		c.order.MoveToFront(el)
		c.mu.Unlock()
		return el.Value.(*cached).payload, nil
	}
	c.mu.Unlock()
	f, err := log.Read(commitlog.Position(pos))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPos == nil {
		c.byPos = map[uint64]*list.Element{}
	}
	if c.byPos[pos] == nil {
		c.byPos[pos] = c.order.PushFront(&cached{pos: pos, payload: f.Payload})
		c.size += int64(len(f.Payload))
	}
	for c.size > c.limit && c.order.Len() > 1 {
		el := c.order.Back()
		old := c.order.Remove(el).(*cached)
		delete(c.byPos, old.pos)
		c.size -= int64(len(old.payload))
	}
	return f.Payload, nil
}
