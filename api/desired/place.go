package desired

import (
	"context"
	"errors"
	"strconv"
	"time"

	"millrace/api/rest"
	"millrace/bus"
)

// Place is where to start in a queue.
type Place struct {
	Kind   PlaceKind
	Offset int64     // of AtOffset
	Time   time.Time // of AtTime
}

// PlaceKind tells places apart.
type PlaceKind int

// The kinds of places.
const (
	Earliest PlaceKind = iota
	Latest
	AtOffset
	AtTime
)

// ParsePlace reads "earliest", "latest", an offset or an RFC 3339 time.
func ParsePlace(field, text string) (Place, error) {
	switch text {
	case "earliest":
		return Place{Kind: Earliest}, nil
	case "latest":
		return Place{Kind: Latest}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return Place{Kind: AtOffset, Offset: n}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return Place{Kind: AtTime, Time: t}, nil
	}
	return Place{}, rest.Bad(field, "%q is not earliest, latest, an offset from 0 or an RFC 3339 time such as 2026-01-31T09:30:00Z", text)
}

// OffsetOf finds a place in one queue. An offset stands as it is given.
func OffsetOf(ctx context.Context, c bus.Client, topic string, b bus.Bound, p Place) (int64, error) {
	switch p.Kind {
	case Latest:
		return b.Next, nil
	case AtOffset:
		return p.Offset, nil
	case AtTime:
		switch year := p.Time.Year(); { // the log counts nanoseconds since 1970 in 64 bits
		case year > 2261:
			return b.Next, nil
		case year < 1678:
			return b.First, nil
		}
		return c.OffsetAt(ctx, topic, b.Queue, p.Time)
	case Earliest:
	}
	return b.First, nil
}

// startsOf adds the place in each queue of a topic; of one that is not made yet
// all begin at 0.
func (p *Plan) startsOf(ctx context.Context, topic string, at Place, into map[string]int64) error {
	bounds, err := p.s.o.Client.Bounds(ctx, topic)
	if errors.Is(err, bus.ErrNoTopic) {
		for q := range max(p.topics[topic].Queues, 1) {
			into[slot(topic, q)] = 0
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, b := range bounds {
		next, err := OffsetOf(ctx, p.s.o.Client, topic, b, at)
		if err != nil {
			return err
		}
		into[slot(topic, b.Queue)] = next
	}
	return nil
}

func slot(topic string, queue int) string { return topic + "/" + strconv.Itoa(queue) }
