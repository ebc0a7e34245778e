package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/workers/loop"
)

// starts is where a rule begins in the queues of topic in.
func starts(at ...int64) map[string]int64 {
	m := map[string]int64{}
	for q, n := range at {
		m[loop.SlotName("in", q)] = n
	}
	return m
}

const plainRule = `{"from":["in"],"to":[{"topic":"%s"}]}`

func TestLaggingRuleCatchesUp(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	w.rule("first", fmt.Sprintf(plainRule, "a"), nil)
	w.work()
	w.publish("in", 0, keys(2500, "k")...)
	w.arrives("a", upTo(0, 2499))
	w.rule("late", fmt.Sprintf(plainRule, "b"), starts(0))
	w.rule("tail", fmt.Sprintf(plainRule, "c"), starts(2500))
	w.rule("ahead", fmt.Sprintf(plainRule, "d"), starts(2600))
	w.publish("in", 2500, keys(50, "k")...)
	w.arrives("b", upTo(0, 2549))
	w.publish("in", 2550, keys(100, "k")...)
	w.arrives("a", upTo(0, 2649))
	w.arrives("b", upTo(0, 2649))
	w.arrives("c", upTo(2500, 2649))
	w.arrives("d", upTo(2600, 2649))
	for _, r := range []string{"first", "late", "tail", "ahead"} {
		s, err := w.bus.Checkpoint(t.Context(), RuleGroup(r), "in/0")
		w.must(err)
		if s.Follows != RouterGroup("in") || s.Next != 2650 {
			t.Errorf("rule %s stands at %+v", r, s)
		}
	}
}

func TestResetRuleIsReplayed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	w.rule("r", fmt.Sprintf(plainRule, "a"), nil)
	w.rule("other", fmt.Sprintf(plainRule, "b"), nil)
	w.work()
	w.publish("in", 0, keys(20, "k")...)
	w.arrives("a", upTo(0, 19))
	w.must(w.bus.ResetGroup(t.Context(), RuleGroup("r"), []bus.Cursor{{Topic: "in", Next: 15}}))
	w.publish("in", 20, "k")
	w.arrives("a", append(upTo(0, 19), upTo(15, 20)...))
	w.arrives("b", upTo(0, 20))
}

func TestPausedRule(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "flush.interval": "5ms"})
	put := func(paused bool) {
		for _, r := range [][2]string{{"direct", `{"topic":"a"}`}, {"fed", `{"connector":"s"}`}} {
			w.must(w.rules.Put(t.Context(), r[0], RuleDef{Spec: json.RawMessage(`{"from":["in"],"to":[` + r[1] + `]}`), Paused: paused}))
		}
	}
	put(false)
	w.rule("other", fmt.Sprintf(plainRule, "b"), nil)
	rt, _ := w.work()
	w.publish("in", 0, keys(5, "k")...)
	w.arrives("a", upTo(0, 4))
	w.holds("s", upTo(0, 4))
	put(true)
	w.until("the worker has seen it", func() bool { return !slices.Contains(rt.runningKeys(), "sink s") })
	w.publish("in", 5, keys(5, "k")...)
	w.arrives("b", upTo(0, 9))
	if a, s := ids(w.all("a")), w.probes.get("s").got(); len(a) != 5 || len(s) != 5 {
		t.Fatalf("paused rules delivered: %v %v", a, s)
	}
	put(false)
	w.arrives("a", upTo(0, 9))
	w.holds("s", upTo(0, 9))
}

func TestRulesAreSwappedUnderLoad(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 2)
	w.rule("steady", fmt.Sprintf(plainRule, "all"), nil)
	w.work()
	ctx, cancel := context.WithCancel(t.Context())
	swapped := make(chan int)
	go func() { // rules come, change and go while events flow
		n := 0
		defer func() { swapped <- n }()
		for ctx.Err() == nil {
			n++
			spec := fmt.Sprintf(`{"from":["in"],"to":[{"topic":"other"}],"description":"%d"}`, n)
			if w.rules.Put(ctx, "other", RuleDef{Spec: json.RawMessage(spec), Starts: starts(0, 0)}) != nil {
				return
			}
			if n%3 == 0 && w.rules.Delete(ctx, "brief") != nil {
				return
			}
			if n%3 == 1 && w.rules.Put(ctx, "brief", RuleDef{Spec: json.RawMessage(`{"from":["in"],"to":[{"topic":"x"}]}`)}) != nil {
				return
			}
		}
	}()
	const n = 3000
	for i := 0; i < n; i += 30 {
		w.publish("in", i, keys(30, "a", "b", "c", "d")...)
	}
	check := func(topic string) {
		w.until(topic, func() bool { return len(w.all(topic)) >= n })
		last, count := map[string]int{}, 0
		for _, r := range w.all(topic) {
			if l, ok := last[r.Key]; ok && l >= number(r) {
				t.Fatalf("%s: key %s: %d after %d", topic, r.Key, number(r), l)
			}
			last[r.Key] = number(r)
			count++
		}
		if count != n {
			t.Fatalf("%s holds %d events, want %d", topic, count, n)
		}
	}
	check("all")
	check("other")
	cancel()
	t.Logf("%d swaps", <-swapped)
}

func TestHopsEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	// A cycle is refused by the api; one that slips through ends by itself.
	w.rule("round", `{"from":["in"],"to":[{"topic":"in"}]}`, nil)
	w.rule("shaped", `{"from":["in"],"transforms":[{"set":{"data.x":"1"}}],"to":[{"topic":"out"}]}`, nil)
	w.work()
	w.publish("in", 0, "k")
	w.hasLetters(DeadTopic("round"), "0 route")
	if n := len(w.all("in")); n != loop.MaxHops+1 {
		t.Fatalf("%d events in the circle", n)
	}
	w.hasLetters(DeadTopic("shaped"), "0 route")
}

func TestKeylessEventForCompactedTopic(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	_, err := w.bus.CreateTopic(t.Context(), bus.Topic{Name: "latest", Type: bus.Compacted})
	w.must(err)
	w.rule("r", fmt.Sprintf(plainRule, "latest"), nil)
	w.rule("other", fmt.Sprintf(plainRule, "b"), nil)
	w.work()
	w.publish("in", 0, "a", "", "a")
	w.arrives("b", upTo(0, 2))
	w.hasLetters(DeadTopic("r"), "1 route")
	recs, err := w.bus.Scan(t.Context(), "latest", "", "", 0)
	w.must(err)
	if got := ids(recs); !slices.Equal(got, []string{"2"}) {
		t.Fatalf("latest holds %v", got)
	}
}

func TestTargetTopicIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	w.rule("r", `{"from":["in"],"transforms":[{"set":{"data.x":"1"}}],"to":[{"topic":"out"}]}`, nil)
	w.rule("d", fmt.Sprintf(plainRule, "direct"), nil)
	w.work()
	w.publish("in", 0, "k")
	w.arrives("out", upTo(0, 0))
	w.arrives("direct", upTo(0, 0))
	for _, topic := range []string{"out", "direct", TargetTopic("r", "out")} {
		w.must(w.bus.DeleteTopic(t.Context(), topic, true))
	}
	w.publish("in", 1, "k")
	w.arrives("out", upTo(1, 1))
	w.arrives("direct", upTo(1, 1))
}

func TestTopicMadeAgainIsReadFromItsStart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	w.publish("in", 0, keys(9, "k")...)
	w.rule("r", fmt.Sprintf(plainRule, "out"), starts(9))
	w.work()
	w.publish("in", 9, "k")
	w.arrives("out", upTo(9, 9))
	w.must(w.bus.DeleteTopic(t.Context(), "in", true))
	w.topic("in", 1)
	w.publish("in", 10, "k")
	w.arrives("out", upTo(10, 10)) // the bytes of 9 went with its topic
}

func TestUnmatchedAndMissesAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	w.rule("r", `{"from":["in"],"where":"int(data.s) > 3","to":[{"topic":"out"}]}`, nil)
	rt, _ := w.work()
	_, err := w.bus.Append(t.Context(), bus.Batch{Writes: []bus.Write{{Topic: "in", Events: []event.Event{
		{ID: "1", Source: "/t", Type: "t", Data: []byte(`{"s":"5"}`)},
		{ID: "2", Source: "/t", Type: "t", Data: []byte(`{"s":"x"}`)},
		{ID: "3", Source: "/t", Type: "t", Data: []byte(`{"s":"2"}`)},
	}}}})
	w.must(err)
	w.arrives("out", upTo(1, 1))
	w.until("stats", func() bool {
		for _, s := range rt.Stats() {
			if s.Kind == "router" && s.Name == "in" && s.Events == 3 && s.Misses == 1 && s.Dropped["unmatched"] == 2 && s.Busy > 0 {
				return true
			}
		}
		return false
	})
	w.until("status", func() bool { s := w.task(RouterGroup("in"), 0); return s.Dropped == 2 && s.Misses == 1 })
}

func TestBadDefinitionStopsNobodyElse(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	w.rule("bad", `{"from":["in"],"to":[{"topic":"out"}],"where":"data.("}`, nil)
	w.rule("good", fmt.Sprintf(plainRule, "out"), nil)
	w.connector("bad", map[string]string{"connector.class": "count-source", "count": "many"})
	w.work()
	w.publish("in", 0, "k")
	w.arrives("out", upTo(0, 0))
	for name, want := range map[string]string{"rule-bad": "where", "bad": "count"} {
		w.until("status of "+name, func() bool {
			recs, err := w.bus.Scan(t.Context(), bus.TopicStatus, StatusKey(name), "", 1)
			w.must(err)
			var s ConnectorStatus
			return len(recs) == 1 && json.Unmarshal(recs[0].Data, &s) == nil && s.State == StateFailed && strings.Contains(s.Trace, want)
		})
	}
	w.must(w.connectors.Delete(t.Context(), "bad"))
	w.until("its status is gone", func() bool {
		recs, err := w.bus.Scan(t.Context(), bus.TopicStatus, StatusKey("bad"), "", 1)
		w.must(err)
		return len(recs) == 0
	})
}

func TestNewTopicOfRegexIsRead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "topics.regex": "t.*", "flush.interval": "5ms"})
	rt, _ := w.work()
	w.until("the sink waits", func() bool { return slices.Contains(rt.runningKeys(), "sink s") })
	w.topic("t1", 1)
	w.publish("t1", 0, keys(3, "k")...)
	w.holds("s", upTo(0, 2))
}
