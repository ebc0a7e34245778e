package rpc

import (
	"time"

	"millrace/bus"
)

// The small messages, as JSON. Durations are nanoseconds. Once is the id of a
// request that changes something: the same id is done once.

type topicName struct {
	Name  string `json:"name"`
	Force bool   `json:"force,omitempty"`
	Once  string `json:"once,omitempty"`
}

type topicBody struct {
	Name       string    `json:"name"`
	ID         uint64    `json:"id,omitempty"`
	Queues     int       `json:"queues,omitempty"`
	Type       string    `json:"type,omitempty"`
	Durability string    `json:"durability,omitempty"`
	Age        int64     `json:"age,omitempty"`
	Bytes      int64     `json:"bytes,omitempty"`
	Consumed   bool      `json:"consumed,omitempty"`
	Created    time.Time `json:"created,omitzero"`
	Once       string    `json:"once,omitempty"`
}

func bodyOf(t bus.Topic) topicBody {
	return topicBody{
		Name: t.Name, ID: t.ID, Queues: t.Queues, Type: string(t.Type), Durability: string(t.Durability),
		Age: int64(t.Retention.Age), Bytes: t.Retention.Bytes, Consumed: t.Consumed, Created: t.Created,
	}
}

func (b *topicBody) topic() bus.Topic {
	return bus.Topic{
		Name: b.Name, ID: b.ID, Queues: b.Queues, Type: bus.TopicType(b.Type), Durability: bus.Durability(b.Durability),
		Retention: bus.Retention{Age: bus.Duration(b.Age), Bytes: b.Bytes}, Consumed: b.Consumed, Created: b.Created,
	}
}

type offsetAtRequest struct {
	Topic string    `json:"topic"`
	Queue int       `json:"queue"`
	Time  time.Time `json:"time"`
}

type changedRequest struct {
	Topic string `json:"topic"`
	Seen  int64  `json:"seen"`
}

type groupRequest struct {
	Group string       `json:"group"`
	Slot  string       `json:"slot,omitempty"`
	Slots []string     `json:"slots,omitempty"`
	To    []bus.Cursor `json:"to,omitempty"`
	Once  string       `json:"once,omitempty"`
}

type memberRequest struct {
	Member string `json:"member"`
	// Ack is the number of the last answer of Slots that arrived; 0 = none did.
	Ack uint64 `json:"ack,omitempty"`
}

type slotsAnswer struct {
	Seq   uint64     `json:"seq"` // 1, 2, … per member
	Slots []slotBody `json:"slots"`
}

type slotBody struct {
	Name  string `json:"name"`
	Epoch uint64 `json:"epoch"`
	// Left is what is left of the lease, in nanoseconds from when the request came.
	Left int64 `json:"left"`
}
