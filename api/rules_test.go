package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/api/desired"
)

// eventually calls ok until it returns "" and fails with what it last said.
func (w *world) eventually(ok func() string) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		said := ok()
		if said == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal(said)
		}
		<-tick.C
	}
}

// settle waits until a rule that is made now works: then the worker has seen all
// changes of rules before it.
func (w *world) settle(n int) {
	w.t.Helper()
	w.must(http.StatusCreated, http.MethodPut, fmt.Sprintf("/rules/settle-%d", n), fmt.Sprintf(`{"from":["settle-%d"],"transforms":[{"set":{"data.a":"1"}}],"to":[{"topic":"settled-%d"}]}`, n, n))
	w.publish(fmt.Sprintf("settle-%d", n), 0, 1)
	w.eventually(func() string {
		if w.must(http.StatusOK, http.MethodGet, fmt.Sprintf("/topics/settled-%d/events", n), "") == "[]\n" {
			return "the rule does not work"
		}
		return ""
	})
}

// TestRuleMadeAgain: a deleted rule leaves nothing behind, and one of the same
// name begins anew at the tail, while a worker runs all of them.
func TestRuleMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.server.desired = desired.New(desired.Options{Client: w.bus, Plugins: testPlugins(), SweepEvery: 50 * time.Millisecond})
	w.work()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.server.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	const spec = `{"from":["in"],"transforms":[{"set":{"data.round":"%d"}}],"to":[{"topic":"out"}]}`
	ids := func() []string {
		var events []struct{ ID string }
		if err := json.Unmarshal([]byte(w.must(http.StatusOK, http.MethodGet, "/topics/out/events?limit=1000", "")), &events); err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range events {
			out = append(out, e.ID)
		}
		return out
	}
	w.must(http.StatusCreated, http.MethodPut, "/topics/in", `{"queues":2}`)
	for round := range 5 {
		w.publish("in", 1000+round, 1) // before the rule: not for it
		w.must(http.StatusCreated, http.MethodPut, "/rules/r", fmt.Sprintf(spec, round))
		w.publish("in", round, 1)
		w.eventually(func() string {
			if got := ids(); len(got) != round+1 || got[round] != strconv.Itoa(round) {
				return fmt.Sprintf("round %d: the events are %v", round, got)
			}
			return ""
		})
		w.must(http.StatusNoContent, http.MethodDelete, "/rules/r", "")
		w.settle(round)
	}
	w.eventually(func() string {
		if topics := w.must(http.StatusOK, http.MethodGet, "/topics?internal=true", ""); strings.Contains(topics, "__rule.r.") {
			return "a delivery topic is left: " + topics
		}
		if groups := w.must(http.StatusOK, http.MethodGet, "/groups", ""); strings.Contains(groups, "rule-r") {
			return "a group is left: " + groups
		}
		return ""
	})
}

// TestReplacedRuleGoesOn: a rule that replaces another goes on where that stood:
// nothing is left out and nothing comes twice.
func TestReplacedRuleGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	w.work()
	const spec = `{"from":["in"],"transforms":[{"set":{"data.round":"%d"}}],"to":[{"topic":"out"}]}`
	const rounds, each = 6, 20
	for round := range rounds {
		w.do(http.MethodPut, "/rules/r", nil, fmt.Sprintf(spec, round))
		w.publish("in", round*each, each)
	}
	w.eventually(func() string {
		var events []struct{ ID string }
		if err := json.Unmarshal([]byte(w.must(http.StatusOK, http.MethodGet, "/topics/out/events?limit=1000", "")), &events); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, e := range events {
			if seen[e.ID]++; seen[e.ID] > 1 {
				t.Fatalf("event %s came twice", e.ID)
			}
		}
		if len(seen) != rounds*each {
			return fmt.Sprintf("%d events came, want %d", len(seen), rounds*each)
		}
		return ""
	})
}
