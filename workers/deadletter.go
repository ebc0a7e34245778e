package workers

import (
	"context"

	"millrace/bus"
	"millrace/workers/letters"
)

// ErrNotRedrivable says that a dead letter has no event that could be delivered
// again: its input was never readable, or its target is gone.
var ErrNotRedrivable = letters.ErrNotRedrivable

// DeadLetter is one event that could not be delivered.
type DeadLetter = letters.Letter

// CheckDeadLetter says whether a topic can take dead letters: it must be
// compacted, so that a redriven letter can be taken out. The error is a
// *bus.Error of kind bus.ErrConflict.
func CheckDeadLetter(t bus.Topic) error { return letters.Check(t) }

// DeadLetters lists the oldest letters of a topic, at most limit (0 = 1000).
func DeadLetters(ctx context.Context, client bus.Client, topic string, limit int) ([]DeadLetter, error) {
	return letters.List(ctx, client, topic, limit)
}

// Redrive gives dead letters of a topic back to the targets they failed at, in
// the order they came in: all of them when ids is empty, else those whose event
// id or letter key is named. It returns how many went; letters that cannot go
// stay, and are told by an error that wraps ErrNotRedrivable when they were named.
// A parked key flows again once all its letters were delivered.
func Redrive(ctx context.Context, client bus.Client, topic string, ids []string) (int, error) {
	return letters.Redrive(ctx, client, topic, ids)
}
