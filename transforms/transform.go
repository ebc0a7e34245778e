package transforms

import (
	"context"

	"millrace/bus/event"
)

// Transform changes a batch of events. It changes copies only: Ext and Data of
// what it was given stay as they are.
type Transform interface {
	// Apply returns the results in order. A parent without a result was dropped, one
	// with many was split, a result with Err failed; an error of Apply itself fails
	// the whole batch and may be tried again.
	Apply(ctx context.Context, in []event.Event) ([]Result, error)
}

// Result is what became of event number Parent of the batch.
type Result struct {
	Parent int
	Event  event.Event
	Err    error
}
