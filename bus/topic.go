package bus

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TopicType says what a topic promises beyond order.
type TopicType string

// The types of DESIGN section 6. Only Normal and Compacted exist so far.
const (
	Normal      TopicType = "normal"
	Compacted   TopicType = "compacted" // the latest record per key
	FIFO        TopicType = "fifo"
	Delay       TopicType = "delay"
	Transaction TopicType = "transaction"
	Lite        TopicType = "lite"
)

// Durability says when an append to a topic is acknowledged. Invariant 1.
type Durability string

// The durabilities.
const (
	Sync  Durability = "sync"  // after fdatasync
	Async Durability = "async" // after the write; synced on an interval
)

// Retention bounds what a topic keeps; zero fields do not bound. Age counts from
// when a record was stored, Bytes per queue.
type Retention struct {
	Age   Duration `json:"age,omitempty"`
	Bytes int64    `json:"bytes,omitempty"`
}

// Topic describes one topic. ID is its incarnation: a topic made again under
// the same name has another. Invariant 3.
type Topic struct {
	Name       string     `json:"name"`
	ID         uint64     `json:"id"`
	Queues     int        `json:"queues"`     // default 1, at most 1024
	Type       TopicType  `json:"type"`       // default normal
	Durability Durability `json:"durability"` // default sync
	Retention  Retention  `json:"retention"`
	// Consumed topics keep a record until the checkpoint of their one group has
	// passed it: delivery queues are such.
	Consumed bool      `json:"consumed,omitempty"`
	Created  time.Time `json:"created"`
}

// Internal reports whether a topic belongs to Millrace itself.
func (t *Topic) Internal() bool { return InternalTopic(t.Name) }

// InternalTopic reports whether a name is one of Millrace's own topics.
func InternalTopic(name string) bool {
	switch name {
	case TopicConfig, TopicPositions, TopicOffsets, TopicStatus, TopicCluster:
		return true
	}
	return strings.HasPrefix(name, "__")
}

// Duration is a time.Duration that reads and writes as "72h", in JSON.
type Duration time.Duration

// MarshalJSON writes the Go form, such as "72h0m0s".
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads the Go form, or a number of days as in "40d".
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s is not a duration such as \"72h\"", b)
	}
	v, err := ParseDuration(s)
	*d = Duration(v)
	return err
}

// ParseDuration reads "90s", "72h" and, beyond package time, "40d".
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int64
		if _, err := fmt.Sscanf(days, "%d", &n); err == nil && strconv.FormatInt(n, 10) == days && n >= 0 && n <= 36500 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%q is not a duration such as \"90s\", \"72h\" or \"40d\"", s)
	}
	return v, nil
}
