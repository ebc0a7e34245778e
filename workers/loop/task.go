package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
	"millrace/transforms"
)

// Run is a loop: it works until ctx ends or something fails. io.EOF and nil say
// that there will never be more to do, a *FailedError that only a restart or
// another config can help; after any other error it is run again.
type Run func(ctx context.Context, t *Task) error

// FailedError ends a task until it is restarted by hand or its config changes.
type FailedError struct{ Err error }

func (e *FailedError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *FailedError) Unwrap() error { return e.Err }

// ErrLease ends a task whose lease was not renewed in time. Invariant 11.
var ErrLease = errors.New("the lease of the slot ended")

// Bounds of one read from a topic.
const (
	MaxRead   = 1000    // records
	ReadBytes = 4 << 20 // bytes
)

// Task is one loop's view of the slots it serves and of the worker around it.
type Task struct {
	Client  bus.Client
	Log     *slog.Logger
	Now     func() time.Time // the wall clock
	Random  func() float64   // in [0, 1)
	DataDir string           // of the worker

	Group string
	ID    int        // the number of its lowest slot among all of the unit's
	Total int        // slots of the unit
	Slots []bus.Slot // served by this task: names and epochs

	Counters    *Counters
	StopTimeout time.Duration // how long a task may take to stop
	// Until is the end of the lease as it is now; no external write starts after it.
	Until func() time.Time
	// Report tells the status topic what the loop is held up by; nil = nothing.
	Report func(err error)
	// TopicName is the name of a topic's incarnation, if it is known.
	TopicName func(id uint64) (string, bool)
}

// Held says whether an external write may start now; if not, it is ErrLease.
// Invariant 11.
func (t *Task) Held() error {
	if time.Now().Before(t.Until()) {
		return nil
	}
	return ErrLease
}

// Owner is slot number i of the task as the bus wants to see it.
func (t *Task) Owner(i int) bus.Owner {
	return bus.Owner{Group: t.Group, Slot: t.Slots[i].Name, Epoch: t.Slots[i].Epoch}
}

// Env is what a connector gets beside its config; of is the number of tasks.
func (t *Task) Env(connector string, of int, st connectors.State) (connectors.Env, error) {
	dir := filepath.Join(t.DataDir, "connectors", dirName(connector))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return connectors.Env{}, fmt.Errorf("data directory: %w", err)
	}
	return connectors.Env{
		Connector: connector, Task: t.ID, Tasks: of, State: st, Logger: t.Log, Now: t.Now, DataDir: dir,
	}, nil
}

// dirName makes a connector's name fit for a directory.
func dirName(name string) string {
	safe := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			return c
		}
		return '_'
	}, name)
	if strings.Trim(safe, ".") == "" {
		safe = "_" + safe
	}
	return safe
}

// Origin is where the bytes of a record first stood, as "topic/queue/offset".
func (t *Task) Origin(rec *event.Record) string {
	if o, ok := Ext(&rec.Event, event.ExtOrigin); ok {
		return o
	}
	topic, at := rec.Topic, rec.Origin
	if at.IsZero() {
		at = event.Ref{Queue: rec.Queue, Offset: rec.Offset}
	} else if name, ok := t.TopicName(at.Topic); ok {
		topic = name
	} else {
		topic = "#" + strconv.FormatUint(at.Topic, 10) // deleted meanwhile
	}
	return topic + "/" + strconv.Itoa(at.Queue) + "/" + strconv.FormatInt(at.Offset, 10)
}

// ReadError is what a failed read ends the loop with.
func ReadError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("read: %w", err)
}

// Stage makes one step of what shapes events, for a task's run.
type Stage struct {
	Make func(*Task) (transforms.Transform, error)
	Drop Drop // why an event without a result is gone
}

// Starts says where slots begin that have no checkpoint.
type Starts struct {
	At   map[string]int64
	Made time.Time // when the rule or connector was made
}

// Of is a slot's first offset: as it was fixed when the rule or connector was
// made, 0 in topics that are younger.
func (s *Starts) Of(slot string, t bus.Topic) int64 {
	if t.Created.After(s.Made) {
		return 0
	}
	return s.At[slot]
}

// Ext is an extension's text.
func Ext(e *event.Event, name string) (string, bool) {
	for i := range e.Ext {
		if e.Ext[i].Name == name {
			return e.Ext[i].Value, true
		}
	}
	return "", false
}

// MaxHops ends what slips through the check for cycles of rules.
const MaxHops = 16

// Hops is how many rules brought an event from topic to topic so far.
func Hops(e *event.Event) int {
	if len(e.Ext) == 0 {
		return 0
	}
	s, _ := Ext(e, event.ExtHops)
	n, _ := strconv.Atoi(s) // absent = 0
	return n
}

// SlotName is the slot of a topic's queue.
func SlotName(topic string, queue int) string { return topic + "/" + strconv.Itoa(queue) }

// SplitSlot takes "topic/queue" apart.
func SplitSlot(slot string) (topic string, queue int, ok bool) {
	i := strings.LastIndexByte(slot, '/')
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(slot[i+1:])
	return slot[:i], n, err == nil && n >= 0
}

// CompareSlots orders slots by topic, internal ones last, then by queue number.
func CompareSlots(a, b string) int {
	at, aq, _ := SplitSlot(a)
	bt, bq, _ := SplitSlot(b)
	internal := func(topic string) int {
		if bus.InternalTopic(topic) {
			return 1
		}
		return 0
	}
	return cmp.Or(internal(at)-internal(bt), strings.Compare(at, bt), cmp.Compare(aq, bq))
}
