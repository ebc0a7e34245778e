package bus

import (
	"context"
	"encoding/json"
	"time"

	"millrace/bus/event"
	"millrace/bus/frame"
)

// Client is the face of a broker, the same in process (*Bus) and from another
// process (rpc.Client). All methods may be called from many goroutines; all
// return promptly when ctx ends. What an error means is told by errors.Is with
// the Err… values of this package and by *Error.
type Client interface {
	// Topics lists all topics by name, internal ones included.
	Topics(ctx context.Context) ([]Topic, error)
	// Topic returns one topic, or ErrNoTopic.
	Topic(ctx context.Context, name string) (Topic, error)
	// CreateTopic makes a topic; zero fields take their defaults. One of that name
	// with equal settings is returned as it is; with other queues or type it is
	// ErrConflict; other durability or retention are changed.
	CreateTopic(ctx context.Context, t Topic) (Topic, error)
	// DeleteTopic removes a topic with all that it holds. While live links refer to
	// its events or a group reads it, it is ErrInUse unless force.
	DeleteTopic(ctx context.Context, name string, force bool) error

	// Append stores a batch, all or nothing, and returns once it is durable by the
	// strictest of its topics' settings: one Appended for every event and link, in
	// the batch's order. Invariants 1 and 2.
	Append(ctx context.Context, b Batch) ([]Appended, error)
	// Read returns records from the cursors' places on, in the order of the
	// cursors, links resolved. It waits up to Limit.Wait for the first one. A cursor
	// before the queue's first record starts there.
	Read(ctx context.Context, from []Cursor, limit Limit) ([]event.Record, error)
	// Bounds returns [first, next) of every queue of a topic.
	Bounds(ctx context.Context, topic string) ([]Bound, error)
	// OffsetAt returns the first offset of a queue stored at or after t, or next.
	OffsetAt(ctx context.Context, topic string, queue int, t time.Time) (int64, error)
	// Scan lists the latest live record of each key of a compacted topic whose key
	// starts with prefix, by key, beginning after the key after; at most limit (0 = 1000).
	// Tombstones are left out. Key is the one it is stored under, also of a link.
	Scan(ctx context.Context, topic, prefix, after string, limit int) ([]event.Record, error)
	// Version is a number that rises with every change of a compacted topic; Changed
	// waits until it differs from seen, and returns it.
	Changed(ctx context.Context, topic string, seen int64) (int64, error)

	// Join makes the caller a member of a group that shares out the given slots.
	// Every member of a group names the same slots; a difference is settled by union.
	Join(ctx context.Context, group string, slots []string) (Member, error)
	// Groups lists every group that has members or checkpoints, by name.
	Groups(ctx context.Context) ([]GroupInfo, error)
	// ResetGroup moves a group's checkpoints to the cursors and raises the epochs of
	// their slots, so that running owners start again from there. Invariant 11.
	ResetGroup(ctx context.Context, group string, to []Cursor) error
	// Checkpoint returns what is saved for a slot of any group; Next is -1 where
	// there is none.
	Checkpoint(ctx context.Context, group, slot string) (Saved, error)
	// Positions returns a source's positions, partition → offset.
	Positions(ctx context.Context, group string) (map[string]json.RawMessage, error)
	// ForgetGroup deletes a group's checkpoints, positions and epochs.
	ForgetGroup(ctx context.Context, group string) error
}

// Member is one owner of slots in a group.
type Member interface {
	// Slots renews the lease and returns the slots that are owned now. It waits for
	// a change, at most a third of the lease. Calling it again says that every slot
	// missing from the last answer has been stopped. ErrNoMember: the lease ended;
	// join again.
	Slots(ctx context.Context) ([]Slot, error)
	// Leave gives all slots back at once.
	Leave(ctx context.Context) error
}

// Slot is a share of a group's work. An owner starts no external write after
// Until (this process's monotonic clock). Invariant 11.
type Slot struct {
	Name  string
	Epoch uint64
	Until time.Time
}

// Owner says on whose behalf something is appended: who holds that slot under
// that epoch. A stale one is refused with ErrFenced, and its whole batch with it.
type Owner struct {
	Group, Slot string
	Epoch       uint64
}

// Checkpoint is how far an owner has come. For a queue slot ("topic/queue")
// Next is the offset to read next; for a source Positions holds the partitions
// that moved (partition → offset as JSON; a nil offset forgets the partition)
// and Next is not used.
//
// Follows, when set, names a group whose checkpoint of the same slot stands for
// this one from Next on: a rule that has caught up follows its topic's router.
type Checkpoint struct {
	Owner
	Next      int64
	Follows   string
	Positions map[string]json.RawMessage
}

// Saved is a stored checkpoint. Next is -1 where nothing was saved, or where it
// was saved for an earlier incarnation of the topic; where Follows is set it is
// the greater of its own and the followed one's. Reset: ResetGroup set it, or
// the topic was made again, and no owner has saved since: a sink's own offsets do
// not count. Epoch is the slot's.
type Saved struct {
	Next    int64
	Follows string
	Reset   bool
	Epoch   uint64
}

// Batch is what becomes visible together or not at all. Invariant 2.
type Batch struct {
	ID     string // a retry with the same id is stored once; "" = never retried
	Writes []Write
	Saves  []Checkpoint
	State  []Keyed
	As     []Owner // further owners under whose epoch this is appended
}

// Write appends events, then links, to one topic. The queue of each is chosen
// by its key; all keyless ones of a Write share one queue, the next in turn.
type Write struct {
	Topic  string
	Events []event.Event
	Links  []Link
}

// Link places the record of one queue in another.
type Link = frame.Link

// Keyed is one entry of a component's state: Value nil deletes it.
type Keyed struct {
	Space, Key string
	Value      []byte
}

// Appended says where one event or link was stored.
type Appended struct {
	Topic  string
	Queue  int
	Offset int64
}

// Cursor is a place to read from. ID, when not 0, names the incarnation that
// Next belongs to: another one is ErrNoTopic.
type Cursor struct {
	Topic string
	ID    uint64
	Queue int
	Next  int64
}

// Limit bounds one answer; at least one record comes whatever its size. Zero
// fields mean 1000 records, 8 MiB, no waiting.
type Limit struct {
	Records int
	Bytes   int
	Wait    time.Duration
}

// Bound is what one queue holds: offsets [First, Next).
type Bound struct {
	Queue       int
	First, Next int64
}

// GroupInfo is a group as GET /groups shows it.
type GroupInfo struct {
	Name  string
	Slots []SlotInfo
}

// SlotInfo is one slot of a group. Topic is empty for a source's task.
type SlotInfo struct {
	Slot  string
	Owner string // member id, "" when nobody has it
	Epoch uint64
	Topic string
	Bound
	Checkpoint int64 // -1 = none
}

// Names of the topics that Millrace keeps for itself; all others of its own
// begin with "__".
const (
	TopicConfig    = "connector-config-topic"   // table: connectors
	TopicPositions = "connector-position-topic" // source positions
	TopicOffsets   = "connector-offset-topic"   // checkpoints of sinks and rules
	TopicStatus    = "connector-status-topic"   // table: states of connectors and tasks
	TopicCluster   = "connector-cluster-topic"  // epochs and owners of slots
	TopicTopics    = "__topics"                 // table: topics
	TopicState     = "__state"                  // state of transforms and connectors
)
