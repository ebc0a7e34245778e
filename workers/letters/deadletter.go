package letters

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/workers/loop"
)

// Extensions of dead letters and of what was redriven from them.
const (
	// extTarget says where a dead letter came from: [group, slot, key] as JSON.
	extTarget = "mrtarget"
	// ExtRedrive marks a redriven event: [round, slot, last] as JSON.
	ExtRedrive = "mrredrive"
)

// StepParked is the step of an event that followed its parked key.
const StepParked = "parked"

// Names that dead letters find their way back by.
const (
	ConnectorPrefix = "connect-"   // of the groups of connectors
	DeliveryPrefix  = "__rule."    // of the topics that feed rules' targets
	RedrivePrefix   = "__redrive." // of the topics that feed connectors again
)

// Check says whether a topic can take dead letters: it must be
// compacted, so that a redriven letter can be taken out. The error is a
// *bus.Error of kind bus.ErrConflict.
func Check(t bus.Topic) error {
	if t.Type == bus.Compacted {
		return nil
	}
	return &bus.Error{
		Kind: bus.ErrConflict, Thing: "topic " + t.Name, Field: "type",
		Msg: fmt.Sprintf("is %s but dead letters need a %s topic: name another one, it is created if it is missing", t.Type, bus.Compacted),
	}
}

// Ensure makes a topic for dead letters unless it is there; one that cannot take
// them is refused as Check does.
func Ensure(ctx context.Context, client bus.Client, name string) error {
	t, err := loop.EnsureTopic(ctx, client, bus.Topic{Name: name, Type: bus.Compacted})
	if err != nil {
		return fmt.Errorf("dead-letter topic %s: %w", name, err)
	}
	return Check(t)
}

// Target is where a dead letter came from.
type Target struct{ Group, Slot, Key string }

// Text is the target as letters carry it.
func (t Target) Text() string {
	b, _ := json.Marshal([]string{t.Group, t.Slot, t.Key}) // strings always encode
	return string(b)
}

func parseTarget(s string) (Target, bool) {
	var a []string
	if json.Unmarshal([]byte(s), &a) != nil || len(a) != 3 {
		return Target{}, false
	}
	return Target{a[0], a[1], a[2]}, true
}

func refText(r event.Ref) string {
	return strconv.FormatUint(r.Topic, 10) + "/" + strconv.Itoa(r.Queue) + "/" + strconv.FormatInt(r.Offset, 10)
}

// Link is the dead letter of a record: a link to the original, with why and
// where it failed. Its key is unique per target and original. Invariant 6.
func Link(rec *event.Record, origin string, from Target, step string, err error) bus.Link {
	target := from.Text()
	overlay := []event.Attr{
		{Name: event.ExtReason, Value: loop.Reason(err)},
		{Name: event.ExtStep, Value: step},
		{Name: event.ExtOrigin, Value: origin},
		{Name: extTarget, Value: target},
	}
	if hops, ok := loop.Ext(&rec.Event, event.ExtHops); ok {
		overlay = append(overlay, event.Attr{Name: event.ExtHops, Value: hops})
	}
	return bus.Link{To: rec.Origin, Key: target + "@" + refText(rec.Origin), Attempt: rec.Attempt, Overlay: overlay}
}

// Letter is one event that could not be delivered.
type Letter struct {
	// Key names the letter in its topic.
	Key string
	// Reason is the error, Step what failed ("write" for the target, "parked" for an
	// event that followed its key), Origin where the event first stood.
	Reason, Step, Origin string
	// Group and Slot say whose delivery failed; empty for an input that never became
	// an event, which cannot be redriven.
	Group, Slot string
	// Record is the original event.
	Record event.Record
}

// List lists the oldest letters of a topic, at most limit (0 = 1000).
func List(ctx context.Context, client bus.Client, topic string, limit int) ([]Letter, error) {
	if limit <= 0 {
		limit = loop.Page
	}
	var all []Letter
	for l, err := range letters(ctx, client, topic, "") {
		if err != nil {
			return nil, err
		}
		if all = append(all, l); len(all) >= 2*limit+loop.Page {
			sortLetters(all)
			all = all[:limit]
		}
	}
	sortLetters(all)
	return all[:min(limit, len(all))], nil
}

// sortLetters orders letters as they came in.
func sortLetters(l []Letter) {
	slices.SortFunc(l, func(a, b Letter) int {
		return cmp.Or(a.Record.Stored.Compare(b.Record.Stored), cmp.Compare(a.Record.Queue, b.Record.Queue), cmp.Compare(a.Record.Offset, b.Record.Offset))
	})
}

// letters yields the letters of a topic whose key starts with prefix, by key.
func letters(ctx context.Context, client bus.Client, topic, prefix string) func(func(Letter, error) bool) {
	return func(yield func(Letter, error) bool) {
		for rec, err := range loop.Scan(ctx, client, topic, prefix) {
			if err != nil {
				yield(Letter{}, err)
				return
			}
			if !yield(letterOf(rec), nil) {
				return
			}
		}
	}
}

func letterOf(rec event.Record) Letter {
	l := Letter{Key: rec.Key, Record: rec}
	kept := make([]event.Attr, 0, len(rec.Ext))
	for _, a := range rec.Ext {
		switch a.Name {
		case event.ExtReason:
			l.Reason = a.Value
		case event.ExtStep:
			l.Step = a.Value
		case event.ExtOrigin:
			l.Origin = a.Value
		case extTarget:
			if t, ok := parseTarget(a.Value); ok {
				l.Group, l.Slot, l.Record.Key = t.Group, t.Slot, t.Key
			}
		default:
			kept = append(kept, a)
		}
	}
	l.Record.Ext = kept
	return l
}
