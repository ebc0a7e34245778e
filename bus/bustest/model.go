package bustest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

func modelCases() []testCase { return []testCase{{"model/random batches", modelRandom}} }

// model is what a broker must hold after the batches it has taken.
type model struct {
	topics    map[string]*modelTopic
	saved     map[string]bus.Saved // slot → checkpoint of group "g"
	positions map[string]json.RawMessage
	state     map[string]string
	taken     []takenBatch
}

type modelTopic struct {
	bus.Topic
	queues  [][]modelRecord
	queueOf map[string]int // key → queue, learnt from answers
}

type modelRecord struct {
	event.Event
	key     string
	origin  event.Ref
	attempt int
}

type takenBatch struct {
	batch bus.Batch
	at    []bus.Appended
}

// soak is how long random cases run: MILLRACE_SOAK, a Go duration, default 5s.
func soak(f *fixture) time.Duration {
	v := os.Getenv("MILLRACE_SOAK")
	if v == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(v)
	f.ok(err)
	return d
}

// walk is one random run against the model.
type walk struct {
	*fixture
	rng  *rand.Rand
	m    model
	own  map[string]bus.Owner
	ids  int
	refs []modelRecord // what links may refer to, with its place in origin
}

func modelRandom(f *fixture) {
	seed := rand.Uint64()
	f.Logf("seed %d", seed)
	w := &walk{fixture: f, rng: rand.New(rand.NewPCG(seed, 1)), m: model{
		topics: map[string]*modelTopic{}, saved: map[string]bus.Saved{}, positions: map[string]json.RawMessage{}, state: map[string]string{},
	}}
	for _, t := range []bus.Topic{
		{Name: "one"},
		{Name: "three", Queues: 3},
		{Name: "async", Queues: 2, Durability: bus.Async},
		{Name: "latest", Queues: 2, Type: bus.Compacted},
		{Name: "temp"},
	} {
		w.make(t)
	}
	w.takeSlots()
	if f.h.Reopen == nil {
		f.Log("this harness cannot reopen: the walk goes without")
	}
	end := time.Now().Add(soak(f))
	for i := 0; i < 60 || time.Now().Before(end); i++ {
		switch p := w.rng.IntN(100); {
		case p < 70:
			w.batch()
		case p < 80:
			w.badBatch()
		case p < 90:
			w.retry()
		case p < 93:
			w.reset()
		case p < 95:
			w.anew()
		case p < 97:
			if f.h.Reopen != nil {
				f.reopen()
				w.takeSlots()
			}
		default:
			w.compare()
		}
	}
	w.compare()
}

func (w *walk) make(t bus.Topic) {
	w.Helper()
	got := w.create(t)
	w.m.topics[t.Name] = &modelTopic{Topic: got, queues: make([][]modelRecord, got.Queues), queueOf: map[string]int{}}
}

func (w *walk) takeSlots() {
	w.Helper()
	_, w.own = w.fixture.own("g", "one/0", "three/1", "task")
	for slot, o := range w.own {
		s, ok := w.m.saved[slot]
		if !ok {
			s.Next = -1
		}
		s.Epoch = o.Epoch
		w.m.saved[slot] = s
	}
}

func (w *walk) key() string {
	if w.rng.IntN(3) == 0 {
		return ""
	}
	return fmt.Sprintf("k%d", w.rng.IntN(6))
}

func (w *walk) randomEvent(topic string) event.Event {
	w.ids++
	e := ev(strconv.Itoa(w.ids), w.key(), strings.Repeat("d", w.rng.IntN(40)))
	if topic == "latest" && e.Key == "" {
		e.Key = "k"
	}
	switch w.rng.IntN(8) {
	case 0:
		e.ContentType, e.Data = "", nil
	case 1:
		e.Ext = []event.Attr{{Name: "a", Value: strconv.Itoa(w.ids), Kind: event.Int}, {Name: "b", Value: "x"}}
	case 2:
		e.Subject, e.Time, e.Schema = "s", time.Unix(int64(w.ids), 7).UTC(), "urn:x"
	}
	return e
}

// randomBatch also returns the records it would store, in the order of the answer.
func (w *walk) randomBatch() (bus.Batch, []modelRecord) {
	w.ids++
	b := bus.Batch{ID: fmt.Sprint("batch-", w.ids)}
	var recs []modelRecord
	names := slices.Sorted(maps.Keys(w.m.topics))
	for range w.rng.IntN(4) {
		wr := bus.Write{Topic: names[w.rng.IntN(len(names))]}
		for range w.rng.IntN(5) {
			e := w.randomEvent(wr.Topic)
			wr.Events = append(wr.Events, e)
			recs = append(recs, modelRecord{Event: e, key: e.Key})
		}
		for range w.rng.IntN(3) {
			if len(w.refs) == 0 || wr.Topic == "temp" {
				break
			}
			to := w.refs[w.rng.IntN(len(w.refs))]
			l := bus.Link{To: to.origin, Key: to.Key, Attempt: w.rng.IntN(5)}
			if wr.Topic == "latest" && l.Key == "" {
				l.Key = "k"
			}
			e := to.Event
			if w.rng.IntN(2) == 0 {
				l.Overlay = []event.Attr{{Name: event.ExtReason, Value: strconv.Itoa(w.ids)}}
				e = e.With(l.Overlay[0])
			}
			wr.Links = append(wr.Links, l)
			recs = append(recs, modelRecord{Event: e, key: l.Key, origin: to.origin, attempt: l.Attempt})
		}
		b.Writes = append(b.Writes, wr)
	}
	if w.rng.IntN(3) == 0 {
		c := bus.Checkpoint{Owner: w.own["one/0"], Next: int64(w.rng.IntN(1000))}
		if w.rng.IntN(2) == 0 {
			c.Owner, c.Follows = w.own["three/1"], "nobody"
		}
		b.Saves = append(b.Saves, c)
	}
	if w.rng.IntN(4) == 0 {
		c := bus.Checkpoint{Owner: w.own["task"], Positions: map[string]json.RawMessage{}}
		for range 1 + w.rng.IntN(3) {
			c.Positions[fmt.Sprint("p", w.rng.IntN(5))] = [2]json.RawMessage{nil, json.RawMessage(strconv.Itoa(w.ids))}[w.rng.IntN(2)]
		}
		b.Saves = append(b.Saves, c)
	}
	for range w.rng.IntN(3) {
		b.State = append(b.State, bus.Keyed{Space: "s", Key: strconv.Itoa(w.rng.IntN(5)), Value: [2][]byte{nil, fmt.Append(nil, w.ids)}[w.rng.IntN(2)]})
	}
	if w.rng.IntN(4) == 0 {
		b.As = []bus.Owner{w.own["one/0"]}
	}
	return b, recs
}

func (w *walk) batch() {
	w.Helper()
	b, recs := w.randomBatch()
	at := w.append(b)
	w.same("number of places", len(at), len(recs))
	i := 0
	for _, wr := range b.Writes {
		t := w.m.topics[wr.Topic]
		keyless := -1
		for range len(wr.Events) + len(wr.Links) {
			r, a := recs[i], at[i]
			i++
			w.same("topic", a.Topic, wr.Topic)
			w.same("offset", a.Offset, int64(len(t.queues[a.Queue])))
			if r.key == "" {
				if keyless >= 0 && keyless != a.Queue {
					w.Fatalf("keyless ones of a write in queues %d and %d", keyless, a.Queue)
				}
				keyless = a.Queue
			} else if q, ok := t.queueOf[r.key]; ok {
				w.same("queue of key "+r.key, a.Queue, q)
			} else {
				t.queueOf[r.key] = a.Queue
			}
			if r.origin.IsZero() {
				r.origin = ref(t.Topic, a)
				if t.Type == bus.Normal && t.Name != "temp" {
					w.refs = append(w.refs, r)
				}
			}
			t.queues[a.Queue] = append(t.queues[a.Queue], r)
		}
	}
	for _, c := range b.Saves {
		if c.Positions == nil {
			w.m.saved[c.Slot] = bus.Saved{Next: c.Next, Follows: c.Follows, Epoch: c.Epoch}
		}
		for p, v := range c.Positions {
			if v == nil {
				delete(w.m.positions, p)
			} else {
				w.m.positions[p] = v
			}
		}
	}
	for _, s := range b.State {
		if s.Value == nil {
			delete(w.m.state, s.Key)
		} else {
			w.m.state[s.Key] = string(s.Value)
		}
	}
	w.m.taken = append(w.m.taken, takenBatch{b, at})
}

// badBatch spoils a batch: nothing of it may be stored.
func (w *walk) badBatch() {
	w.Helper()
	b, _ := w.randomBatch()
	b.State = append(b.State, bus.Keyed{Space: "s", Key: "bad", Value: []byte("x")})
	kind := bus.ErrInvalid
	switch w.rng.IntN(5) {
	case 0:
		b.Writes, kind = append(b.Writes, bus.Write{Topic: "nix", Events: events("e", 1)}), bus.ErrNoTopic
	case 1:
		b.Writes = append(b.Writes, bus.Write{Topic: "one", Events: []event.Event{{ID: "x"}}})
	case 2:
		b.Writes = append(b.Writes, bus.Write{Topic: "one", Links: []bus.Link{{To: event.Ref{Topic: w.m.topics["one"].ID, Offset: 1 << 40}}}})
	case 3:
		b.As, kind = append(b.As, bus.Owner{Group: "g", Slot: "one/0", Epoch: w.own["one/0"].Epoch - 1}), bus.ErrFenced
	default:
		b.Saves, kind = append(b.Saves, bus.Checkpoint{Owner: bus.Owner{Group: "g", Slot: "task", Epoch: w.own["task"].Epoch + 1}}), bus.ErrFenced
	}
	if _, err := w.c.Append(w.Context(), b); !errors.Is(err, kind) {
		w.Fatalf("%v instead of %q for %+v", err, kind, b)
	}
}

func (w *walk) retry() {
	w.Helper()
	if n := len(w.m.taken); n > 0 {
		t := w.m.taken[max(0, n-1-w.rng.IntN(20))]
		got := w.append(t.batch)
		w.same("answer to a retry", append([]bus.Appended{}, got...), append([]bus.Appended{}, t.at...))
	}
}

func (w *walk) reset() {
	w.Helper()
	next := int64(w.rng.IntN(100))
	w.ok(w.c.ResetGroup(w.Context(), "g", []bus.Cursor{{Topic: "one", Next: next}}))
	s := w.checkpoint("g", "one/0")
	o := w.own["one/0"]
	if s.Epoch <= o.Epoch {
		w.Fatalf("epoch %d after %d", s.Epoch, o.Epoch)
	}
	o.Epoch = s.Epoch
	w.own["one/0"] = o
	w.m.saved["one/0"] = bus.Saved{Next: next, Epoch: s.Epoch, Reset: true}
}

// anew deletes the topic that nothing links to and makes it again.
func (w *walk) anew() {
	w.Helper()
	w.ok(w.c.DeleteTopic(w.Context(), "temp", false))
	old := w.m.topics["temp"].ID
	w.make(bus.Topic{Name: "temp", Queues: 1 + w.rng.IntN(3)})
	if w.m.topics["temp"].ID == old {
		w.Fatal("an id was used twice")
	}
	w.m.taken = slices.DeleteFunc(w.m.taken, func(t takenBatch) bool {
		return slices.ContainsFunc(t.batch.Writes, func(wr bus.Write) bool { return wr.Topic == "temp" })
	})
}

// compare reads everything and holds it against the model.
func (w *walk) compare() {
	w.Helper()
	w.batchOn("one") // readers never pass what is synced: it stands behind all async ones
	for name, t := range w.m.topics {
		if t.Type == bus.Compacted {
			w.compareLatest(t)
			continue
		}
		for q, want := range t.queues {
			got := w.queue(name, q)
			w.same("records of "+name, len(got), len(want))
			for i, r := range got {
				w.same("event", r.Event, want[i].Event)
				w.same("origin and attempt", []any{r.Origin, r.Attempt}, []any{want[i].origin, want[i].attempt})
			}
		}
	}
	for slot, want := range w.m.saved {
		w.same("checkpoint of "+slot, w.checkpoint("g", slot), want)
	}
	pos, err := w.c.Positions(w.Context(), "g")
	w.ok(err)
	if len(pos)+len(w.m.positions) > 0 {
		w.same("positions", pos, w.m.positions)
	}
	want := []string{}
	for _, k := range slices.Sorted(maps.Keys(w.m.state)) {
		want = append(want, "s/"+k+"="+w.m.state[k])
	}
	w.same("state", w.scan(bus.TopicState, "s/"), want)
}

// batchOn appends one event to a topic.
func (w *walk) batchOn(topic string) {
	w.Helper()
	w.ids++
	e := ev(strconv.Itoa(w.ids), "k0", "")
	a := w.put(topic, e)[0]
	t := w.m.topics[topic]
	w.same("offset", a.Offset, int64(len(t.queues[a.Queue])))
	t.queues[a.Queue] = append(t.queues[a.Queue], modelRecord{Event: e, key: e.Key, origin: ref(t.Topic, a)})
}

func (w *walk) compareLatest(t *modelTopic) {
	w.Helper()
	latest := map[string]string{}
	for q, recs := range t.queues {
		w.same("next of "+t.Name, w.bound(t.Name, q).Next, int64(len(recs)))
		for _, r := range recs {
			if r.Data == nil {
				delete(latest, r.key)
			} else {
				latest[r.key] = r.ID
			}
		}
	}
	recs, err := w.c.Scan(w.Context(), t.Name, "", "", 0)
	w.ok(err)
	var got, want []string
	for _, r := range recs {
		got = append(got, r.ID)
	}
	for _, k := range slices.Sorted(maps.Keys(latest)) {
		want = append(want, latest[k])
	}
	w.same("latest", got, want)
}
