package workers

import (
	"errors"
	"strings"
	"testing"

	"millrace/bus/event"
	"millrace/workers/loop"
)

func TestSourceToTopic(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.connector("c", map[string]string{"connector.class": "count-source", "topic": "numbers", "count": "35", "state": "true"})
	w.work()
	w.arrives("numbers", upTo(0, 34))
	for _, r := range w.all("numbers") {
		if len(r.Ext) > 0 {
			t.Fatalf("reserved extensions came in: %v", r.Ext)
		}
	}
	w.until("the task's events in its status", func() bool { return w.task("c", 0).Events == 35 })
	if s := w.task("c", 0); s.State != StateRunning || s.Trace != "" || s.Epoch == 0 {
		t.Fatalf("status %+v", s)
	}
}

func TestSourceTransformsAndBadInput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.connector("c", map[string]string{
		"connector.class": "count-source", "topic": "numbers", "count": "12", "bad": "3", "errors.tolerance": "all",
		"transforms": `[{"filter":{"where":"data.n % 2 == 0"}},{"set":{"data.big":"data.n > 5"}}]`,
	})
	w.work()
	w.arrives("numbers", []string{"0", "2", "4", "6", "8", "10"})
	if got := string(w.all("numbers")[3].Data); got != `{"n":6,"big":true}` {
		t.Fatalf("data %s", got)
	}
	list, err := DeadLetters(t.Context(), w.bus, DeadTopic("c"), 10)
	w.must(err)
	if len(list) != 1 || list[0].Reason != "unreadable" || string(list[0].Record.Data) != "?" || list[0].Origin != "line:3" {
		t.Fatalf("dead letters %+v", list)
	}
	if _, err := Redrive(t.Context(), w.bus, DeadTopic("c"), []string{"line:3"}); !errors.Is(err, ErrNotRedrivable) {
		t.Fatalf("redrive of what never was an event: %v", err)
	}
	w.until("counters", func() bool { s := w.task("c", 0); return s.Dead == 1 && s.Dropped == 5 && s.Events == 6 })
}

func TestSourceStopsAtBadInput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	config := map[string]string{"connector.class": "count-source", "topic": "numbers", "count": "30", "bad": "13"}
	w.connector("c", config)
	w.work()
	w.until("FAILED", func() bool { return w.task("c", 0).State == StateFailed })
	if tr := w.task("c", 0).Trace; !strings.Contains(tr, "line:13") || !strings.Contains(tr, "unreadable") {
		t.Fatalf("trace %q", tr)
	}
	w.arrives("numbers", upTo(0, 9))
	config["bad"] = "-1"
	w.connector("c", config)
	w.arrives("numbers", upTo(0, 29))
}

func TestRuleToAllTargets(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("in", 1)
	w.connector("es", map[string]string{"connector.class": "probe-sink", "id": "es", "flush.interval": "20ms"})
	w.rule("shaped", `{"from":["in"],"where":"data.n > 2","transforms":[{"set":{"data.size":"'big'"}}],
		"to":[{"topic":"out"},{"connector":"es"},{"http":{"url":"http://web"}}]}`, nil)
	w.rule("plain", `{"from":["in"],"when":{"data":{"n":[{"numeric":["<=",2]}]}},"to":[{"topic":"small"}]}`, nil)
	w.rule("second", `{"from":["out"],"to":[{"topic":"again"}]}`, nil)
	w.work()
	w.publish("in", 0, keys(6, "a")...)
	w.arrives("small", upTo(0, 2))
	w.arrives("out", upTo(3, 5))
	w.arrives("again", upTo(3, 5))
	w.holds("es", upTo(3, 5))
	w.holds("http://web", upTo(3, 5))
	out := w.all("out")[0]
	if string(out.Data) != `{"n":3,"size":"big"}` || out.Key != "a" {
		t.Fatalf("shaped event: %+v %s", out.Event, out.Data)
	}
	origin := func(rec event.Record) (string, string) {
		o, _ := loop.Ext(&rec.Event, event.ExtOrigin)
		h, _ := loop.Ext(&rec.Event, event.ExtHops)
		return o, h
	}
	for topic, want := range map[string][2]string{"small": {"in/0/0", "1"}, "out": {"in/0/3", "1"}, "again": {"in/0/3", "2"}} {
		if o, h := origin(w.all(topic)[0]); o != want[0] || h != want[1] {
			t.Errorf("%s: origin %s after %s rules, want %v", topic, o, h, want)
		}
	}
}

func TestSinkReadsTopics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.topic("orders.eu", 3)
	w.topic("orders.us", 1)
	w.topic("other", 1)
	w.publish("orders.eu", 0, keys(30, "a", "b", "c", "d", "e")...)
	w.publish("other", 0, "x")
	w.connector("s", map[string]string{
		"connector.class": "probe-sink", "id": "s", "topics.regex": `orders\..*`, "flush.interval": "20ms",
		"when": `{"data":{"n":[{"numeric":["<",40]}]}}`, "where": "data.n != 7", "transforms": `[{"set":{"data.k":"partitionkey"}}]`,
	})
	_, stop := w.work()
	p := w.probes.get("s")
	w.until("29 events", func() bool { return len(p.got()) == 29 })
	w.publish("orders.us", 35, keys(10, "a")...)
	w.until("34 events", func() bool { return len(p.got()) == 34 })
	byKey := map[string]int{}
	p.set(func(p *probe) {
		if p.opened != 1 {
			t.Errorf("opened %d times with tasks.max 1", p.opened)
		}
		for _, r := range p.flushed {
			if last, ok := byKey[r.Topic+r.Key]; ok && last >= number(r) {
				t.Errorf("key %s: %d after %d", r.Key, number(r), last)
			}
			byKey[r.Topic+r.Key] = number(r)
		}
	})
	w.until("counters", func() bool { s := w.task("s", 0); return s.Dropped == 6 && s.Events == 40 })
	stop()
	w.work()
	w.publish("orders.us", 39, "a")
	w.until("one more", func() bool { return len(p.got()) == 35 })
}
