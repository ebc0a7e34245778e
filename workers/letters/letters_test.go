package letters

import (
	"errors"
	"testing"

	"millrace/bus"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := Check(bus.Topic{Name: "d", Type: bus.Compacted}); err != nil {
		t.Error(err)
	}
	if err := Check(bus.Topic{Name: "d", Type: bus.Normal}); !errors.Is(err, bus.ErrConflict) {
		t.Errorf("a normal topic: %v", err)
	}
}
