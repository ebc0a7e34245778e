package connectors

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"millrace/bus/event"
)

// Source brings events in. The runtime calls Read and Close from one goroutine.
type Source interface {
	// Read returns the next events with the positions reached after them; it waits
	// until there is something or ctx ends. Keep an answer within about 1,000 events
	// or 4 MiB. io.EOF says that there will never be more. Any other error: the
	// runtime closes the source and opens it again at the last stored positions.
	Read(ctx context.Context) (Produced, error)
	Close() error
}

// Acker is a Source that wants to know what has been stored.
type Acker interface {
	// Ack is called after events and positions are durable. Only now may the source
	// forget or delete upstream what they stand for. Invariant 5.
	Ack(ctx context.Context, positions map[string]json.RawMessage) error
}

// Produced is one answer of a Source. Positions maps partitions to offsets, both
// the source's own; a nil offset forgets the partition. They are stored in the
// same batch as the events: exactly once into the topic.
type Produced struct {
	Events    []Out
	Positions map[string]json.RawMessage
	// Failed are inputs that could not become events. They follow errors.tolerance:
	// none stops the task, all puts Raw into the connector's dead letters.
	Failed []BadInput
}

// Out is an event and the topic it goes to.
type Out struct {
	Topic string
	Event event.Event
}

// BadInput is an input that could not be read, with where it came from.
type BadInput struct {
	Origin string // such as "/data/a.ndjson:17"
	Raw    []byte
	Err    error
}

// Sink takes events out. The runtime calls it from one goroutine; ctx of a call
// ends when the slot is lost or the task stops.
type Sink interface {
	// Write takes records in queue order. It may keep them until Flush. A *BatchError
	// says which failed while all others were taken; any other error says that none
	// is known to be taken.
	Write(ctx context.Context, records []event.Record) error
	// Flush returns once everything taken is durable at the target. The checkpoint
	// follows Flush, never Write. Invariant 5.
	Flush(ctx context.Context) error
	Close() error
}

// OffsetKeeper is a Sink that stores offsets with the data. Offsets returns, by
// slot ("topic/queue"), the next offset that the target needs; the runtime
// starts there: exactly once end to end.
type OffsetKeeper interface {
	Offsets(ctx context.Context) (map[string]int64, error)
}

// Searcher is a Sink's plugin face for POST /search/{sink}.
type Searcher interface {
	Search(ctx context.Context, q Query) ([]Hit, error)
}

// Query asks a Searcher for the Top (default 5) best matches.
type Query struct {
	Text   string         `json:"query"`
	Top    int            `json:"top"`
	Filter map[string]any `json:"filter"`
}

// Hit is one answer; the higher Score, the better.
type Hit struct {
	ID       string         `json:"id"`
	Score    float64        `json:"score"`
	Text     string         `json:"text"`
	Document string         `json:"document"`
	Metadata map[string]any `json:"metadata"`
}

// Receiver turns one HTTP request to /webhooks/{name} into events. It keeps no
// state; every node's api calls it. An error is an *HTTPError or a 500.
type Receiver interface {
	Receive(ctx context.Context, r *http.Request, body []byte) ([]Out, error)
}

// HTTPError is an answer to an HTTP caller: a 4xx that names the field.
type HTTPError struct {
	Status int
	Field  string
	Msg    string
}

func (e *HTTPError) Error() string {
	if e.Field == "" {
		return e.Msg
	}
	return e.Field + ": " + e.Msg
}

// Env is what the runtime gives a connector beside its config.
type Env struct {
	Connector string // the connector's name
	Task      int    // 0 … Tasks-1
	Tasks     int
	// Positions is where a source last stood, partition → offset.
	Positions map[string]json.RawMessage
	State     State
	Logger    *slog.Logger
	// Now is the wall clock; tests make it virtual.
	Now func() time.Time
	// DataDir is a directory of the connector's own for what can be lost or
	// rebuilt, or is a store by purpose (vectors-sink). It exists.
	DataDir string
}

// State is a small store for a component. What it puts and deletes joins the
// batch of the events or checkpoint that are stored next.
type State interface {
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	Put(key string, value []byte)
	Delete(key string)
	Scan(ctx context.Context, prefix string) iter.Seq2[Entry, error]
}

// Entry is one key and value of a State.
type Entry struct {
	Key   string
	Value []byte
}
