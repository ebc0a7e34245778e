package letters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/workers/loop"
)

// ErrNotRedrivable says that a dead letter has no event that could be delivered
// again: its input was never readable, or its target is gone.
var ErrNotRedrivable = errors.New("cannot be redriven")

// Redrive gives dead letters of a topic back to the targets they failed at, in
// the order they came in: all of them when ids is empty, else those whose event
// id or letter key is named. Each letter is taken out in the same batch that
// brings its event back. It returns how many went; letters that cannot go stay
// and are told by an error that wraps ErrNotRedrivable (only when they were
// named). A parked key flows again once all its letters were delivered.
func Redrive(ctx context.Context, client bus.Client, deadTopic string, ids []string) (n int, err error) {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	var chosen []Letter
	var refused []string
	for l, err := range letters(ctx, client, deadTopic, "") {
		switch {
		case err != nil:
			return 0, err
		case len(ids) > 0 && !wanted[l.Record.ID] && !wanted[l.Key]:
		case l.Group == "":
			refused = append(refused, l.Record.ID)
		default:
			chosen = append(chosen, l)
		}
	}
	sortLetters(chosen)
	// The last letter of each key of each slot unparks it.
	last := map[string]int{}
	for i := range chosen {
		last[parkOf(&chosen[i])] = i
	}
	round := strconv.FormatInt(time.Now().UnixNano(), 36)
	for i := range chosen {
		l := &chosen[i]
		b, err := redriveBatch(deadTopic, l, Mark{Round: round, Slot: l.Slot, Last: last[parkOf(l)] == i})
		if err != nil {
			return n, err
		}
		_, err = client.Append(ctx, b)
		switch {
		case errors.Is(err, bus.ErrNoTopic):
			refused = append(refused, l.Record.ID)
		case err != nil:
			return n, fmt.Errorf("redrive %s: %w", l.Record.ID, err)
		default:
			n++
		}
	}
	if len(refused) > 0 && len(ids) > 0 {
		return n, fmt.Errorf("%s: %w", strings.Join(refused, ", "), ErrNotRedrivable)
	}
	return n, nil
}

func parkOf(l *Letter) string { return l.Group + "\x00" + l.Slot + "\x00" + l.Record.Key }

// Mark stands on a redriven event: the round it belongs to, the slot it failed
// on, and whether it is the last of its key.
type Mark struct {
	Round, Slot string
	Last        bool
}

func (m Mark) text() string {
	b, _ := json.Marshal(m) // always encodes
	return string(b)
}

// MarkOf reads the mark of a record.
func MarkOf(e *event.Event) (m Mark, ok bool) {
	s, ok := loop.Ext(e, ExtRedrive)
	return m, ok && json.Unmarshal([]byte(s), &m) == nil
}

// redriveBatch links a letter's original back into its target's queue and takes
// the letter out.
func redriveBatch(deadTopic string, l *Letter, mark Mark) (bus.Batch, error) {
	topic, _, ok := loop.SplitSlot(l.Slot)
	if !ok {
		return bus.Batch{}, fmt.Errorf("dead letter %s: malformed slot %q", l.Key, l.Slot)
	}
	overlay := []event.Attr{{Name: event.ExtOrigin, Value: l.Origin}, {Name: ExtRedrive, Value: mark.text()}}
	if !strings.HasPrefix(topic, DeliveryPrefix) && !strings.HasPrefix(topic, RedrivePrefix) {
		if connector, ok := strings.CutPrefix(l.Group, ConnectorPrefix); ok {
			topic = RedrivePrefix + connector
		} else { // a rule links straight into the topic
			overlay = overlay[:1]
		}
	}
	if hops, ok := loop.Ext(&l.Record.Event, event.ExtHops); ok {
		overlay = append(overlay, event.Attr{Name: event.ExtHops, Value: hops})
	}
	e := &l.Record
	return bus.Batch{
		// Whoever else redrives this letter now says the same: it goes once.
		ID: fmt.Sprintf("redrive %s/%d/%d %d", deadTopic, e.Queue, e.Offset, e.Stored.UnixNano()),
		Writes: []bus.Write{
			{Topic: topic, Links: []bus.Link{{To: e.Origin, Key: e.Key, Overlay: overlay}}},
			{Topic: deadTopic, Events: []event.Event{{ID: e.ID, Source: e.Source, Type: e.Type, Key: l.Key}}},
		},
	}, nil
}
