package workers

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/connectors"
)

const fast = `"retry":{"strategy":"custom","attempts":2,"delay":"5ms","maxDelay":"20ms"}`

// poison refuses the numbered events while it is switched on.
func poison(on *atomic.Bool, err error, numbers ...int) func(event.Record) error {
	return func(r event.Record) error {
		if on.Load() && slices.Contains(numbers, number(r)) {
			return err
		}
		return nil
	}
}

func TestSkipAndRedrive(t *testing.T) {
	t.Parallel()
	for _, permanentErr := range []bool{true, false} {
		t.Run(fmt.Sprint("permanent ", permanentErr), func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.topic("in", 1)
			var on atomic.Bool
			on.Store(true)
			err := errors.New("will not have it")
			if permanentErr {
				err = connectors.Permanent(err)
			}
			p := w.probes.get("s")
			p.fail = poison(&on, err, 3, 5)
			w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "flush.interval": "5ms"})
			w.rule("r", `{"from":["in"],"to":[{"connector":"s"}],"onError":"skip",`+fast+`}`, nil)
			w.work()
			w.publish("in", 0, keys(8, "k")...)
			w.holds("s", []string{"0", "1", "2", "4", "6", "7"})
			w.hasLetters(DeadTopic("r"), "3 write", "5 write")
			on.Store(false)
			n, rerr := Redrive(t.Context(), w.bus, DeadTopic("r"), []string{"5"})
			w.must(rerr)
			w.holds("s", []string{"0", "1", "2", "4", "6", "7", "5"})
			if got := w.letters(DeadTopic("r")); n != 1 || len(got) != 1 {
				t.Fatalf("redrove %d, %v left", n, got)
			}
			w.publish("in", 8, "k")
			w.holds("s", []string{"0", "1", "2", "4", "6", "7", "5", "8"})
		})
	}
}

func TestBlockWaitsAndSaysWhy(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 2)
	var on atomic.Bool
	on.Store(true)
	w.probes.get("s").fail = poison(&on, connectors.Permanent(errors.New("will not have it")), 2)
	w.connector("s", map[string]string{
		"connector.class": "probe-sink", "id": "s", "topics": "in", "flush.interval": "5ms", "errors.retry.delay.max.ms": "50",
	})
	w.connector("other", map[string]string{"connector.class": "probe-sink", "id": "other", "topics": "in", "flush.interval": "5ms"})
	w.work()
	w.publish("in", 0, keys(6, "k")...)
	w.holds("other", upTo(0, 5)) // Invariant 9
	w.until("the status names the event", func() bool {
		s := w.task("s", 0)
		return s.State == StateRunning && strings.Contains(s.Trace, "event 2") && strings.Contains(s.Trace, "will not have it")
	})
	w.holds("s", []string{"0", "1", "3", "4", "5"})
	w.publish("in", 6, "k")
	on.Store(false)
	w.holds("s", []string{"0", "1", "3", "4", "5", "2", "6"})
	w.until("the status is clear again", func() bool { return w.task("s", 0).Trace == "" })
	if l := w.letters(DeadTopic("s")); len(l) > 0 {
		t.Fatalf("dead letters %v", l)
	}
}

func TestBlockedTargetDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	var on atomic.Bool
	on.Store(true)
	w.probes.get("s").crash = func([]event.Record) error {
		if on.Load() {
			return errors.New("down")
		}
		return nil
	}
	w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "flush.interval": "5ms"})
	w.rule("r", `{"from":["in"],"transforms":[{"set":{"data.x":"1"}}],"onError":"block",`+fast+`,
		"to":[{"connector":"s"},{"topic":"out"},{"http":{"url":"http://web"}}]}`, nil)
	w.rule("other", `{"from":["in"],"to":[{"topic":"direct"}]}`, nil)
	w.work()
	for i := 0; i < 50; i += 10 {
		w.publish("in", i, keys(10, "k")...)
	}
	w.arrives("out", upTo(0, 49))
	w.arrives("direct", upTo(0, 49))
	w.holds("http://web", upTo(0, 49))
	if got := w.probes.get("s").got(); len(got) > 0 {
		t.Fatalf("the blocked target took %v", got)
	}
	on.Store(false)
	w.holds("s", upTo(0, 49))
}

func TestBlockedTransformKeepsOrder(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	spec := `{"from":["in"],"to":[{"topic":"out"}],"onError":"block","transforms":[%s],` + fast + `}`
	w.rule("r", fmt.Sprintf(spec, `{"split":{"path":"data.n"}}`), nil)
	w.work()
	w.publish("in", 1, keys(3, "k")...)
	w.until("the status names the step", func() bool { return strings.Contains(w.task("rule-r", 0).Trace, "transforms[0].split") })
	if got := w.all("out"); len(got) > 0 {
		t.Fatalf("passed: %v", ids(got))
	}
	w.rule("r", fmt.Sprintf(spec, `{"set":{"data.ok":"true"}}`), nil)
	w.arrives("out", upTo(1, 3))
}

func TestParkKey(t *testing.T) {
	t.Parallel()
	for _, fed := range []string{"by a rule", "by topics"} {
		t.Run(fed, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			w.topic("in", 1)
			var on atomic.Bool
			on.Store(true)
			p := w.probes.get("s")
			p.fail = poison(&on, connectors.Permanent(errors.New("will not have it")), 2, 6)
			config := map[string]string{"connector.class": "probe-sink", "id": "s", "flush.interval": "5ms"}
			dead := DeadTopic("r")
			if fed == "by a rule" {
				w.rule("r", `{"from":["in"],"to":[{"connector":"s"}],"onError":"park-key",`+fast+`}`, nil)
			} else {
				config["topics"], config["onError"], dead = "in", "park-key", DeadTopic("s")
			}
			w.connector("s", config)
			_, stop := w.work()
			w.publish("in", 0, keys(3, "a", "b")...) // 0a 1b 2a: 2 parks a
			w.hasLetters(dead, "2 write")
			w.publish("in", 3, keys(3, "b", "a")...) // 3b 4a 5b
			w.hasLetters(dead, "2 write", "4 parked")
			w.holds("s", []string{"0", "1", "3", "5"})

			// The key stays parked over a restart, and 6 follows without being tried.
			stop()
			w.work()
			w.publish("in", 6, "a")
			w.hasLetters(dead, "2 write", "4 parked", "6 parked")

			// 2 goes through, 4 follows it, 6 is refused and parks the key again.
			p.set(func(p *probe) { p.fail = poison(&on, connectors.Permanent(errors.New("still not")), 6) })
			if n, err := Redrive(t.Context(), w.bus, dead, nil); n != 3 || err != nil {
				t.Fatalf("redrove %d: %v", n, err)
			}
			w.hasLetters(dead, "6 write")
			w.holds("s", []string{"0", "1", "3", "5", "2", "4"})
			w.publish("in", 7, "a")
			w.hasLetters(dead, "6 write", "7 parked")

			// While the first is redriven alone, the key stays parked behind it.
			on.Store(false)
			if n, err := Redrive(t.Context(), w.bus, dead, []string{"6"}); n != 1 || err != nil {
				t.Fatalf("redrove %d: %v", n, err)
			}
			w.holds("s", []string{"0", "1", "3", "5", "2", "4", "6"})
			w.publish("in", 8, "a")
			w.hasLetters(dead, "7 parked", "8 parked")
			if n, err := Redrive(t.Context(), w.bus, dead, nil); n != 2 || err != nil {
				t.Fatalf("redrove %d: %v", n, err)
			}
			w.holds("s", []string{"0", "1", "3", "5", "2", "4", "6", "7", "8"})
			w.until("the key flows", func() bool {
				recs, err := w.bus.Scan(t.Context(), "__state", "park/", "", 0)
				w.must(err)
				return len(recs) == 0
			})
			w.publish("in", 9, "a")
			w.holds("s", []string{"0", "1", "3", "5", "2", "4", "6", "7", "8", "9"})
			if l := w.letters(dead); len(l) > 0 {
				t.Fatalf("letters left: %v", l)
			}
		})
	}
}

func TestWholeWriteFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	p := w.probes.get("s")
	p.crash = func(recs []event.Record) error {
		for _, r := range recs {
			if number(r) == 57 {
				return errors.New("connection reset")
			}
		}
		return nil
	}
	w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "flush.interval": "5ms"})
	w.rule("r", `{"from":["in"],"to":[{"connector":"s"}],`+fast+`}`, nil)
	w.publish("in", 0, keys(100, "k")...)
	w.rule("r", `{"from":["in"],"to":[{"connector":"s"}],"onError":"skip",`+fast+`}`, map[string]int64{"in/0": 0})
	w.work()
	w.hasLetters(DeadTopic("r"), "57 write")
	want := append(upTo(0, 56), upTo(58, 99)...)
	w.holds("s", want)
	n := 0
	p.set(func(p *probe) { n = p.opened })
	if n > 20 {
		t.Errorf("opened %d times to find one failing event of 100", n)
	}
}

func TestFlushFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	p := w.probes.get("s")
	left := 7
	p.flushErr = func() error {
		if left--; left > 0 {
			return errors.New("disk gone")
		}
		return nil
	}
	w.connector("s", map[string]string{
		"connector.class": "probe-sink", "id": "s", "topics": "in", "flush.interval": "5ms", "errors.retry.delay.max.ms": "10",
	})
	w.work()
	w.publish("in", 0, keys(50, "k")...)
	w.holds("s", upTo(0, 49))
}

func TestOffsetKeeperIsExactlyOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 2)
	w.publish("in", 0, keys(40, "a", "b", "c")...)
	w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "topics": "in", "keep": "true", "flush.interval": "5ms"})
	_, stop := w.work()
	p := w.probes.get("s")
	w.until("40 events", func() bool { return len(p.got()) == 40 })
	stop()
	// The checkpoint was lost; the sink knows better.
	w.must(w.bus.ForgetGroup(t.Context(), ConnectorGroup("s")))
	w.work()
	w.publish("in", 40, "a")
	w.until("41 events", func() bool { return len(p.got()) == 41 })
	if got := p.got(); got[40] != "40" {
		t.Fatalf("last is %s", got[40])
	}
}

func TestHungSinkIsAbandoned(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	release := make(chan struct{})
	defer close(release)
	w.options.StopTimeout = 300 * time.Millisecond
	w.probes.get("s").hang = release
	w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "topics": "in"})
	w.connector("other", map[string]string{"connector.class": "probe-sink", "id": "other", "topics": "in", "flush.interval": "5ms"})
	_, stop := w.work()
	w.publish("in", 0, "k")
	w.holds("other", upTo(0, 0))
	p := w.probes.get("s")
	w.until("a write hangs", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.writes > 0 })
	began := time.Now()
	stop()
	if d := time.Since(began); d > 3*time.Second {
		t.Fatalf("stopping took %s", d)
	}
	info, err := w.bus.Checkpoint(t.Context(), ConnectorGroup("s"), "in/0")
	w.must(err)
	if info.Next > 0 {
		t.Fatalf("the abandoned task saved %d", info.Next)
	}
}

func TestShapedEventTooLarge(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *bus.Options) { o.MaxEvent = 64 << 10 })
	w.topic("in", 1)
	w.rule("r", `{"from":["in"],"transforms":[{"set":{"data.copy":"data.pad"}}],"to":[{"topic":"out"}],"onError":"skip",`+fast+`}`, nil)
	for i, pad := range []int{10, 10, 40 << 10, 10} {
		e := event.Event{ID: strconv.Itoa(i), Source: "/t", Type: "t", Key: "k", Data: fmt.Appendf(nil, `{"pad":"%s"}`, strings.Repeat("x", pad))}
		_, err := w.bus.Append(t.Context(), bus.Batch{Writes: []bus.Write{{Topic: "in", Events: []event.Event{e}}}})
		w.must(err)
	}
	w.work()
	w.arrives("out", []string{"0", "1", "3"})
	w.hasLetters(DeadTopic("r"), "2 write")
}

func TestOffsetKeeperFollowsAReset(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	w.publish("in", 0, keys(10, "a")...)
	w.connector("s", map[string]string{"connector.class": "probe-sink", "id": "s", "topics": "in", "keep": "true", "flush.interval": "5ms"})
	_, stop := w.work()
	p := w.probes.get("s")
	w.until("10 events", func() bool { return len(p.got()) == 10 })
	w.must(w.bus.ResetGroup(t.Context(), ConnectorGroup("s"), []bus.Cursor{{Topic: "in", Next: 4}}))
	w.until("6 again", func() bool { return len(p.got()) == 16 })
	stop()
	// The topic is made again: the sink's offsets are of the one before.
	w.must(w.bus.DeleteTopic(t.Context(), "in", true))
	w.topic("in", 1)
	w.publish("in", 100, keys(20, "a")...)
	w.work()
	w.until("20 of the new topic", func() bool { return len(p.got()) == 36 })
	if got := p.got(); got[10] != "4" || got[16] != "100" {
		t.Fatalf("got %v", got)
	}
}
