package transforms

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"millrace/bus/event"
)

// TestRenameModel compares rename with: take all values, remove them, set them.
func TestRenameModel(t *testing.T) {
	t.Parallel()
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		raw := drawValue(t, nil, 0)
		moves := map[string]string{}
		var from []Path
		for range rapid.IntRange(1, 3).Draw(t, "moves") {
			f, o := drawPath(t, decode(t, raw), 1, false), drawPath(t, decode(t, raw), 1, false)
			if _, twice := moves[f.src]; twice {
				continue
			}
			moves[f.src] = o.src
			from = append(from, f)
		}
		config, err := json.Marshal(map[string]any{"rename": moves})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compile([]json.RawMessage{config}, Env{})
		if err != nil {
			return // they overlap
		}
		results, err := c.Apply(context.Background(), []event.Event{{ID: "1", Source: "/s", Type: "t", Data: raw}})
		if err != nil || len(results) != 1 {
			t.Fatal(results, err)
		}
		want := decode(t, raw)
		values := map[string]any{}
		for i := range from {
			if v, ok := modelGet(decode(t, raw), from[i].segs); ok {
				values[from[i].src] = v
			}
		}
		want, _ = modelRemove(want, nil, from)
		barred := false
		st := c.steps[0].step.(*renameStep)
		for i := range st.moves { // in the step's order: makes a difference to lists only
			if v, ok := values[st.moves[i].from.src]; ok {
				next, ok := modelSet(want, st.moves[i].to.segs, v)
				if barred = barred || !ok; ok {
					want = next
				}
			}
		}
		r := results[0]
		if barred != (r.Err != nil) || !barred && !reflect.DeepEqual(decode(t, r.Event.Data), want) {
			t.Fatalf("%s of %s: %s %v, want %v, barred %v", config, raw, r.Event.Data, r.Err, want, barred)
		}
		if len(values) > 0 && !barred {
			moved++
		}
	})
	if moved == 0 {
		t.Error("nothing was ever moved")
	}
}
