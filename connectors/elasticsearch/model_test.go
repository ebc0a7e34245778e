package elasticsearch_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/bus/event"
	"millrace/connectors"
)

// TestRandomFaults writes a queue of updates and deletes through answers that fail
// at random, as the runtime does: what fails alone is tried again before the queue
// goes on, and a crash goes back to an earlier place. In the end the documents are
// those of the last event per key.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	length := 5 * time.Second
	if text := os.Getenv("MILLRACE_SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("MILLRACE_SOAK: %v", err)
		}
	}
	for end, run := time.Now().Add(length), 0; run < 2 || time.Now().Before(end); run++ {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprintf("versions %t seed %d", run%2 == 0, seed), func(t *testing.T) {
			randomFaults(newDouble(t), rand.New(rand.NewPCG(seed, 0)), run%2 == 0)
		}) {
			return
		}
	}
}

func randomFaults(d *double, r *rand.Rand, versions bool) {
	t := d.t
	fate := rand.New(rand.NewPCG(r.Uint64(), 0)) // the double's, under its lock
	chance := func(one int) bool { return fate.IntN(one) == 0 }
	d.item = func(document) (int, string) {
		if chance(10) {
			return []int{429, 503}[fate.IntN(2)], "unavailable"
		}
		return 0, ""
	}
	d.before = func(w http.ResponseWriter, n int) bool {
		switch {
		case chance(8):
			answer(w, http.StatusServiceUnavailable, "busy")
		case n > 1 && chance(8):
			answer(w, http.StatusRequestEntityTooLarge, "")
		default:
			d.lost = chance(8)
			return false
		}
		return true
	}
	want := map[document]string{}
	queue := make([]event.Record, 60)
	for i := range queue {
		key, data := fmt.Sprint("k", r.IntN(6)), fmt.Sprintf(`{"n":%d}`, i)
		if r.IntN(4) == 0 {
			data = ""
			delete(want, document{"orders", key})
		} else {
			want[document{"orders", key}] = data
		}
		queue[i] = rec(int64(i), key, data)
	}
	s := sinkTo(t, d.server.URL, map[string]any{"external.version": versions, "batch.size": 1 + r.IntN(5)})
	for next := 0; next < len(queue); {
		batch := queue[next:min(next+1+r.IntN(12), len(queue))]
		end := next + len(batch)
		err := s.Write(t.Context(), batch)
		for tries := 0; err != nil; tries++ {
			be, alone := errors.AsType[*connectors.BatchError](err)
			if !alone || tries > 100 {
				break
			}
			var again []event.Record
			for _, i := range slices.Sorted(maps.Keys(be.Failed)) {
				if connectors.IsPermanent(be.Failed[i]) {
					t.Fatalf("record %d: %v", i, be.Failed[i])
				}
				again = append(again, batch[i])
			}
			batch = again
			err = s.Write(t.Context(), batch)
		}
		switch {
		case err != nil || r.IntN(10) == 0: // opened again at the checkpoint, or an earlier one
			next = max(0, next-r.IntN(4))
		default:
			next = end
		}
	}
	if diff := cmp.Diff(want, d.hold()); diff != "" {
		t.Error(diff)
	}
}
