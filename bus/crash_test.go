package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"millrace/bus/event"
	"millrace/bus/vfs"
)

// soak is how long random tests run: MILLRACE_SOAK, a Go duration.
func soak(t *testing.T) time.Duration {
	t.Helper()
	if s := os.Getenv("MILLRACE_SOAK"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("MILLRACE_SOAK: %v", err)
		}
		return d
	}
	return 5 * time.Second
}

func randomSeed(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("MILLRACE_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatalf("MILLRACE_SEED: %v", err)
		}
	}
	t.Logf("MILLRACE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 7))
}

// crashModel is what a broker must hold: only what was acknowledged, and
// perhaps the one operation under way.
type crashModel struct {
	queues map[Cursor][]string // every id ever appended, by place (Next is 0)
	keyed  map[string]string   // compacted topic: key → data
	saved  map[slotKey]int64
	serial int
}

func (m *crashModel) clone() *crashModel {
	c := *m
	c.queues = map[Cursor][]string{}
	for k, v := range m.queues {
		c.queues[k] = slices.Clip(v)
	}
	c.keyed, c.saved = maps.Clone(m.keyed), maps.Clone(m.saved)
	return &c
}

type crashWalk struct {
	t     *testing.T
	rng   *rand.Rand
	clock *clock
	b     *Bus
	mem   *vfs.Mem
	views *pebblevfs.MemFS

	model   *crashModel // acknowledged
	pending *crashModel // if the operation under way is stored; nil = none
	verify  bool
	crashes int
	batches int
	failed  error
	cleaned int64
	links   []event.Ref // of events that links may refer to
	linkIDs map[event.Ref]string
}

const crashQueues = 2

func (w *crashWalk) options(fs vfs.FS, views pebblevfs.FS) Options {
	return Options{
		FS: fs, ViewsFS: views, SegmentBytes: 8 << 10, MaxEvent: 1 << 20, CleanEvery: -1,
		SyncInterval: time.Hour, Now: w.clock.now,
	}
}

func (w *crashWalk) open() {
	fault := &vfs.Fault{FS: w.mem, After: func(op vfs.Op) {
		if w.verify && op.Kind.Changes() {
			w.crash()
		}
	}}
	b, err := Open("d", w.options(fault, w.views))
	if err != nil {
		w.t.Fatal(err)
	}
	w.b = b
}

// crash checks what would be found if the power went at this moment.
func (w *crashWalk) crash() {
	w.crashes++
	mem := w.mem.Crash(w.rng)
	views := w.views.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[w.rng.IntN(3)], RNG: w.rng})
	if err := w.check(mem, views); err != nil {
		// This may be the committer's goroutine: the walk stops at the next step.
		w.failed = fmt.Errorf("after crash %d: %w", w.crashes, err)
		w.verify = false
	}
}

// check opens what a crash left and compares it with the model, and its views
// with those built anew from the log alone.
func (w *crashWalk) check(mem *vfs.Mem, views *pebblevfs.MemFS) error {
	b, err := Open("d", w.options(mem, views))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	err = w.compare(b)
	got := dump(w.t, b)
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	b, err = Open("d", w.options(mem, pebblevfs.NewMem()))
	if err != nil {
		return fmt.Errorf("open without views: %w", err)
	}
	rebuilt := dump(w.t, b)
	if err := b.Close(); err != nil {
		return err
	}
	if got != rebuilt {
		return fmt.Errorf("views differ from those rebuilt from the log:\n%s", lineDiff(got, rebuilt))
	}
	return nil
}

func (w *crashWalk) compare(b *Bus) error {
	err := w.model.compare(b)
	if err != nil && w.pending != nil {
		if err2 := w.pending.compare(b); err2 != nil {
			return fmt.Errorf("as before the operation: %w; as after: %w", err, err2)
		}
		return nil
	}
	return err
}

func (m *crashModel) compare(b *Bus) error {
	ctx := context.Background()
	for c, ids := range m.queues {
		bounds, err := b.Bounds(ctx, c.Topic)
		if err != nil {
			return err
		}
		first, next := bounds[c.Queue].First, bounds[c.Queue].Next
		if next != int64(len(ids)) {
			return fmt.Errorf("%s/%d: next is %d, want %d", c.Topic, c.Queue, next, len(ids))
		}
		wantFirst := int64(0)
		switch c.Topic {
		case "consumed":
			wantFirst = max(0, m.saved[slotKey{"g", fmt.Sprintf("consumed/%d", c.Queue)}])
		case "short":
			wantFirst = first
			if first > max(0, next-3) {
				return fmt.Errorf("short: only [%d,%d) is left", first, next)
			}
		}
		if first != wantFirst {
			return fmt.Errorf("%s/%d: first is %d, want %d", c.Topic, c.Queue, first, wantFirst)
		}
		for at := first; at < next; {
			recs, err := b.Read(ctx, []Cursor{{Topic: c.Topic, Queue: c.Queue, Next: at}}, Limit{Records: 7})
			if err != nil {
				return err
			}
			if len(recs) == 0 {
				return fmt.Errorf("%s/%d: nothing to read at %d", c.Topic, c.Queue, at)
			}
			for _, r := range recs {
				if r.Offset != at || r.ID != ids[at] {
					return fmt.Errorf("%s/%d: at %d stands %s (offset %d), want %s", c.Topic, c.Queue, at, r.ID, r.Offset, ids[at])
				}
				at++
			}
		}
	}
	recs, err := b.Scan(ctx, "latest", "", "", 0)
	if err != nil {
		return err
	}
	got := map[string]string{}
	for _, r := range recs {
		got[r.Key] = string(r.Data)
	}
	if !maps.Equal(got, m.keyed) {
		return fmt.Errorf("latest holds %v, want %v", got, m.keyed)
	}
	for k, next := range m.saved {
		if s, err := b.Checkpoint(ctx, k.group, k.slot); err != nil || s.Next != next {
			return fmt.Errorf("checkpoint %v is %d (%w), want %d", k, s.Next, err, next)
		}
	}
	return nil
}

// step does one random operation, whose effect on the model is known before.
func (w *crashWalk) step() {
	switch p := w.rng.IntN(100); {
	case p < 75:
		w.batch()
	case p < 85:
		w.clock.add(time.Duration(w.rng.IntN(3600)) * time.Second)
		w.must(w.b.Clean(w.t.Context()))
	case p < 90:
		w.must(w.b.index.Flush())
	case p < 93:
		w.reset()
	case p < 96:
		w.topic()
	default:
		w.verify = false
		w.close()
		w.open()
		w.verify = true
	}
}

func (w *crashWalk) close() {
	stats, err := w.b.Stats()
	w.must(err)
	w.cleaned += stats.Cleaned
	w.must(w.b.Close())
}

func (w *crashWalk) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// batch appends to several topics at once, with links, a checkpoint and an id.
func (w *crashWalk) batch() {
	after := w.model.clone()
	var batch Batch
	if w.rng.IntN(2) == 0 {
		w.batches++
		batch.ID = fmt.Sprint("batch-", w.batches)
	}
	b := w.b
	ts := b.topics.Load()
	for _, topic := range []string{"orders", "short", "consumed", "latest"} {
		if w.rng.IntN(2) == 0 || topic == "orders" && w.rng.IntN(5) > 0 {
			continue // most of what is stored dies
		}
		write := Write{Topic: topic}
		for range 1 + w.rng.IntN(4) {
			after.serial++
			key := fmt.Sprint("k", w.rng.IntN(9))
			e := ev(strconv.Itoa(after.serial), key, fmt.Sprintf(`{"pad":"%0*d"}`, w.rng.IntN(600), 1))
			if topic == "latest" {
				if w.rng.IntN(4) == 0 {
					e.Data = nil
					delete(after.keyed, key)
				} else {
					after.keyed[key] = string(e.Data)
				}
			}
			write.Events = append(write.Events, e)
		}
		if topic == "consumed" && len(w.links) > 0 && w.rng.IntN(2) == 0 {
			to := w.links[w.rng.IntN(len(w.links))]
			if !w.gone(to) {
				after.serial++
				write.Links = append(write.Links, Link{To: to, Key: fmt.Sprint("l", after.serial)})
			}
		}
		batch.Writes = append(batch.Writes, write)
	}
	if w.rng.IntN(3) == 0 {
		q := w.rng.IntN(crashQueues)
		slot := slotKey{"g", fmt.Sprintf("consumed/%d", q)}
		next := w.model.saved[slot] + w.rng.Int64N(3)
		if next <= int64(len(w.model.queues[Cursor{Topic: "consumed", Queue: q}])) {
			s, err := b.Checkpoint(w.t.Context(), "g", slot.slot)
			w.must(err)
			batch.Saves = append(batch.Saves, Checkpoint{Owner: Owner{"g", slot.slot, s.Epoch}, Next: next})
			after.saved[slot] = next
		}
	}
	// Where each goes is for the broker to say; ask its own encoder.
	p, err := b.encode(&batch)
	w.must(err)
	b.topics.Store(ts)
	places := map[Cursor]int{}
	i := 0
	for _, part := range p.p.Order {
		h := p.p.Runs[part.Run]
		for range part.N {
			c := Cursor{Topic: ts.byID[h.Queue.Topic].Name, Queue: int(h.Queue.Queue)}
			if c.Topic != "latest" {
				after.queues[c] = append(after.queues[c], w.itemID(&batch, i))
			}
			places[c]++
			i++
		}
	}
	w.pending = after
	out, err := b.Append(w.t.Context(), batch)
	w.must(err)
	if batch.ID != "" && w.rng.IntN(3) == 0 {
		again, err := b.Append(w.t.Context(), batch)
		w.must(err)
		if fmt.Sprint(out) != fmt.Sprint(again) {
			w.t.Fatal("a retry gave another answer")
		}
	}
	w.model, w.pending = after, nil
	w.note(ts, &batch, out)
}

func (w *crashWalk) itemID(b *Batch, i int) string {
	for _, wr := range b.Writes {
		if i < len(wr.Events) {
			return wr.Events[i].ID
		}
		i -= len(wr.Events)
		if i < len(wr.Links) {
			return w.linkIDs[wr.Links[i].To]
		}
		i -= len(wr.Links)
	}
	return ""
}

// note remembers places of the topic that retention trims: links keep them.
func (w *crashWalk) note(ts *topicSet, b *Batch, out []Appended) {
	for i, a := range out {
		if a.Topic == "short" || a.Topic == "latest" {
			ref := event.Ref{Topic: ts.byName[a.Topic].ID, Queue: a.Queue, Offset: a.Offset}
			w.links = append(w.links, ref)
			w.linkIDs[ref] = w.itemID(b, i)
		}
	}
	if n := len(w.links); n > 40 {
		w.links = w.links[n-40:]
	}
}

// gone reports whether nothing stands at a place any more.
func (w *crashWalk) gone(ref event.Ref) bool {
	var v resolver
	_, ok, err := v.seek(w.b, ref)
	w.must(err)
	return !ok
}

func (w *crashWalk) reset() {
	after := w.model.clone()
	q := w.rng.IntN(crashQueues)
	slot := slotKey{"g", fmt.Sprintf("orders/%d", q)}
	after.saved[slot] = w.rng.Int64N(5)
	w.pending = after
	w.must(w.b.ResetGroup(w.t.Context(), "g", []Cursor{{Topic: "orders", Queue: q, Next: after.saved[slot]}}))
	w.model, w.pending = after, nil
}

// topic makes and deletes a topic that comes and goes.
func (w *crashWalk) topic() {
	after := w.model.clone()
	if _, ok := w.model.queues[Cursor{Topic: "temp"}]; ok {
		delete(after.queues, Cursor{Topic: "temp"})
		w.pending = after
		w.must(w.b.DeleteTopic(w.t.Context(), "temp", false))
	} else {
		after.queues[Cursor{Topic: "temp"}] = nil
		w.pending = after
		_, err := w.b.CreateTopic(w.t.Context(), Topic{Name: "temp"})
		w.must(err)
		w.model = after.clone()
		after.serial++
		id := strconv.Itoa(after.serial)
		after.queues[Cursor{Topic: "temp"}] = []string{id}
		w.pending = after
		_, err = w.b.Append(w.t.Context(), Batch{Writes: []Write{{Topic: "temp", Events: []event.Event{ev(id, "", "1")}}}})
		w.must(err)
	}
	w.model, w.pending = after, nil
}

// TestCrash runs random schedules of appends, links, checkpoints, retries,
// retention, cleaning, compaction, topics that come and go and reopening, and
// crashes after every operation on the disk: nothing acknowledged is lost,
// batches are whole, offsets dense, and the views equal those rebuilt from the
// log alone.
func TestCrash(t *testing.T) {
	t.Parallel()
	rng := randomSeed(t)
	end := time.Now().Add(soak(t))
	crashes, schedules := 0, 0
	for ; schedules == 0 || time.Now().Before(end); schedules++ {
		w := &crashWalk{
			t: t, rng: rng, clock: newClock(1_800_000_000), mem: new(vfs.Mem), views: pebblevfs.NewCrashableMem(),
			model: &crashModel{
				queues: map[Cursor][]string{}, keyed: map[string]string{}, saved: map[slotKey]int64{},
			},
			linkIDs: map[event.Ref]string{},
		}
		w.open()
		for _, topic := range []Topic{
			{Name: "orders", Queues: crashQueues},
			{Name: "consumed", Queues: crashQueues, Consumed: true},
			{Name: "short", Retention: Retention{Bytes: 4000}},
			{Name: "latest", Type: Compacted, Queues: crashQueues},
		} {
			mustCreate(t, w.b, topic)
			if topic.Type != Compacted {
				for q := range max(1, topic.Queues) {
					w.model.queues[Cursor{Topic: topic.Name, Queue: q}] = nil
				}
			}
		}
		w.verify = true
		for range 120 {
			w.step()
			w.must(w.failed)
			if time.Now().After(end) && schedules > 0 {
				break
			}
		}
		w.verify = false
		w.close()
		if schedules == 0 && w.cleaned == 0 {
			t.Error("the schedule cleaned nothing: it does not test cleaning")
		}
		crashes += w.crashes
	}
	t.Logf("%d schedules, %d crashes", schedules, crashes)
}

// lineDiff lists the lines that only one of two texts has.
func lineDiff(got, want string) string {
	in := map[string]int{}
	for l := range strings.Lines(got) {
		in[l]++
	}
	for l := range strings.Lines(want) {
		in[l]--
	}
	var out strings.Builder
	for _, l := range slices.Sorted(maps.Keys(in)) {
		if in[l] != 0 {
			fmt.Fprintf(&out, "%+d %s", in[l], l)
		}
	}
	return out.String()
}
