package workers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"millrace/bus"
	"millrace/bus/event"
	"millrace/rules"
	"millrace/workers/letters"
	"millrace/workers/loop"
)

// routeRule is a rule as routers see it.
type routeRule struct {
	info    *ruleInfo
	targets []routeTarget
	// held: the rule is paused and links straight into a topic, so it stops where
	// it stands. The events of its other targets wait in their queues.
	held bool
}

// routeTarget is where a matched event is linked to.
type routeTarget struct {
	to     string
	topic  bool // the target is a topic: the event's hops count
	direct bool // the link goes straight into that topic
}

// routeSet is all rules of one topic, judged together. It never changes.
type routeSet struct {
	rules []*routeRule
	set   *rules.Set
	print string
}

// routerDef routes the queues of one topic.
type routerDef struct {
	topic  string
	routes *routeSets
}

// follower is a rule's own progress on one queue. Rules that stand where the
// router stands follow it and need no checkpoint of their own; one whose start
// lies ahead follows too and takes no notice of what comes before. The others
// lag: they are routed alone until they have caught up.
type follower struct {
	rule    *routeRule
	epoch   uint64
	lagging bool
	next    int64  // lagging: the offset to route next; else the first that concerns it
	saved   bool   // the stored checkpoint says all this
	dead    string // dead-letter topic, once it is known to exist
}

// router is one loop over one queue.
type router struct {
	def    *routerDef
	t      *loop.Task
	client bus.Client
	app    *loop.Appender
	slot   string
	queue  int
	topic  bus.Topic

	routes *routeSet
	epochs int64 // as of when the followers were loaded
	rules  []follower
	next   int64
	fresh  bool                 // next is not saved yet
	made   map[string]bus.Topic // link targets that exist

	scratch rules.Scratch
	w       loop.Writer
	b       bus.Batch
	matched []bool // rules with links in the batch
}

const (
	routerWait = time.Second
	lagBatch   = 1000 // events of lagging rules between two batches of the others
)

func (d *routerDef) run(ctx context.Context, t *loop.Task) error {
	r := &router{def: d, t: t, client: t.Client, app: t.NewAppender(), slot: t.Slots[0].Name, made: map[string]bus.Topic{}}
	_, r.queue, _ = loop.SplitSlot(r.slot)
	var err error
	if r.topic, err = r.client.Topic(ctx, d.topic); err != nil {
		return err
	}
	for {
		err := r.step(ctx)
		if errors.Is(err, bus.ErrFenced) && r.stillOwner(ctx) {
			r.routes = nil // some rule was reset: look again where all stand
			continue
		}
		if err != nil {
			return err
		}
	}
}

// stillOwner tells a reset of a rule from the loss of the router's own slot.
func (r *router) stillOwner(ctx context.Context) bool {
	saved, err := r.client.Checkpoint(ctx, RouterGroup(r.def.topic), r.slot)
	return err == nil && saved.Epoch == r.t.Slots[0].Epoch
}

// step routes one batch for all, and one for those that lag.
func (r *router) step(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	routes, epochs := r.def.routes.of(r.def.topic)
	if routes == nil { // the unit is about to end
		return loop.Wait(ctx, routerWait)
	}
	if routes != r.routes || epochs != r.epochs {
		if err := r.load(ctx, routes, epochs); err != nil {
			r.routes = nil
			return err
		}
	}
	lagging := false
	for i := range r.rules {
		lagging = lagging || r.rules[i].lagging && !r.rules[i].rule.held
	}
	limit := bus.Limit{Records: loop.MaxRead, Bytes: loop.ReadBytes, Wait: routerWait}
	if lagging {
		limit.Wait = 0
	}
	cursor := []bus.Cursor{{Topic: r.def.topic, ID: r.topic.ID, Queue: r.queue, Next: r.next}}
	recs, err := r.client.Read(ctx, cursor, limit)
	if err != nil {
		return loop.ReadError(ctx, err)
	}
	if routes, epochs := r.def.routes.of(r.def.topic); r.routes != routes || r.epochs != epochs {
		return nil // rules changed while this waited: they judge these records too
	}
	if len(recs) > 0 {
		start := time.Now()
		if err := r.route(ctx, recs, false); err != nil {
			return err
		}
		r.t.Counters.Batch(len(recs), start)
	}
	if lagging {
		return r.catchUp(ctx)
	}
	return nil
}

// load finds out where every rule stands.
func (r *router) load(ctx context.Context, routes *routeSet, epochs int64) error {
	own, err := r.client.Checkpoint(ctx, RouterGroup(r.def.topic), r.slot)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	r.next, r.fresh = own.Next, false
	r.rules = r.rules[:0]
	least := int64(math.MaxInt64)
	for _, rule := range routes.rules {
		saved, err := r.client.Checkpoint(ctx, RuleGroup(rule.info.name), r.slot)
		if err != nil {
			return fmt.Errorf("checkpoint of rule %s: %w", rule.info.name, err)
		}
		f := follower{rule: rule, epoch: saved.Epoch, next: saved.Next}
		if f.next < 0 {
			starts := loop.Starts{At: rule.info.def.Starts, Made: rule.info.def.Created}
			f.next = starts.Of(r.slot, r.topic)
		}
		follows := saved.Next >= 0 && saved.Follows != ""
		f.saved = saved.Next >= 0 && follows != rule.held
		least = min(least, f.next)
		r.rules = append(r.rules, f)
	}
	if r.next < least { // nobody wants what lies before the least of them
		r.next, r.fresh = least, true
	}
	for i := range r.rules {
		f := &r.rules[i]
		f.lagging = f.next < r.next || f.rule.held
		if f.lagging && !f.rule.held {
			f.saved = true // its next batch saves it
		}
	}
	r.routes, r.epochs = routes, epochs
	for len(r.matched) < len(r.rules) {
		r.matched = append(r.matched, false)
	}
	return r.settle(ctx)
}

// settle saves what loading decided: who follows, and who stays behind.
func (r *router) settle(ctx context.Context) error {
	r.begin()
	for i := range r.rules {
		switch f := &r.rules[i]; {
		case f.saved:
		case f.rule.held:
			r.save(f, f.next, "")
		default:
			r.save(f, f.next, RouterGroup(r.def.topic))
		}
	}
	if r.fresh {
		r.b.Saves = append(r.b.Saves, bus.Checkpoint{Owner: r.t.Owner(0), Next: r.next})
	}
	if len(r.b.Saves) == 0 {
		return nil
	}
	return r.commit(ctx)
}

func (r *router) begin() {
	r.w.Reset()
	r.b = bus.Batch{Saves: r.b.Saves[:0], As: r.b.As[:0]}
	clear(r.matched)
}

func (r *router) save(f *follower, next int64, follows string) {
	r.b.Saves = append(r.b.Saves, bus.Checkpoint{
		Owner: bus.Owner{Group: RuleGroup(f.rule.info.name), Slot: r.slot, Epoch: f.epoch}, Next: next, Follows: follows,
	})
}

// commit appends the batch as the router's owner, and as the group of every rule
// that has something in it: where one was reset meanwhile, nothing is stored.
// Invariants 2 and 11.
func (r *router) commit(ctx context.Context) error {
	r.b.Writes = r.w.Used()
	r.b.As = append(r.b.As, r.t.Owner(0))
	for i := range r.rules {
		if r.matched[i] {
			f := &r.rules[i]
			r.b.As = append(r.b.As, bus.Owner{Group: RuleGroup(f.rule.info.name), Slot: r.slot, Epoch: f.epoch})
		}
	}
	err := r.app.Put(ctx, &r.b)
	if errors.Is(err, bus.ErrNoTopic) {
		clear(r.made)
		for i := range r.rules {
			r.rules[i].dead = ""
		}
	}
	if err != nil {
		return fmt.Errorf("append: %w", err)
	}
	return nil
}

// route links the records into the queues of the rules that want them, and saves
// how far that is: for the router and all that follow it, or for the rules that
// lag.
func (r *router) route(ctx context.Context, recs []event.Record, lag bool) error {
	r.begin()
	unmatched, misses := 0, 0
	for i := range recs {
		rec := &recs[i]
		found := r.routes.set.Match(&rec.Event, &r.scratch)
		misses += len(r.scratch.Failures)
		wanted := false
		for _, n := range found {
			f := &r.rules[n]
			if f.lagging != lag || rec.Offset < f.next || f.rule.held {
				continue
			}
			wanted = true
			r.matched[n] = true
			if err := r.link(ctx, f, rec); err != nil {
				return err
			}
		}
		if !wanted {
			unmatched++
		}
	}
	next := recs[len(recs)-1].Offset + 1
	if lag {
		return r.caughtUp(ctx, next)
	}
	r.b.Saves = append(r.b.Saves, bus.Checkpoint{Owner: r.t.Owner(0), Next: next})
	if err := r.commit(ctx); err != nil {
		return err
	}
	r.next = next
	r.t.Counters.Drop(loop.DropUnmatched, unmatched)
	r.t.Counters.Misses.Add(int64(misses))
	return nil
}

// link puts one matched event into its rule's queues.
func (r *router) link(ctx context.Context, f *follower, rec *event.Record) error {
	hops, moved := 0, false
	if len(rec.Ext) > 0 {
		hops = loop.Hops(&rec.Event)
		_, moved = loop.Ext(&rec.Event, event.ExtOrigin)
	}
	for i := range f.rule.targets {
		t := &f.rule.targets[i]
		if t.topic && hops >= loop.MaxHops {
			if err := r.refuse(ctx, f, t, rec, errHops); err != nil {
				return err
			}
			continue
		}
		to, known := r.made[t.to]
		if !known {
			var err error
			if to, err = r.target(ctx, t); refused(err) { // its neighbours go on
				if err := r.refuse(ctx, f, t, rec, err); err != nil {
					return err
				}
				continue
			} else if err != nil {
				return err
			}
		}
		if rec.Key == "" && to.Type == bus.Compacted {
			if err := r.refuse(ctx, f, t, rec, errNoKey); err != nil {
				return err
			}
			continue
		}
		l := r.w.Link(t.to)
		*l = bus.Link{To: rec.Origin, Key: rec.Key}
		switch {
		case t.direct:
			l.Overlay = way(r.t.Origin(rec), hops+1)
		case moved || hops > 0: // the link goes to the bytes: what was laid over them goes along
			l.Overlay = way(r.t.Origin(rec), hops)
		}
	}
	return nil
}

// target makes sure that a link's topic is there. Delivery topics are made when
// the rule is planned, with all their settings.
func (r *router) target(ctx context.Context, t *routeTarget) (to bus.Topic, err error) {
	if t.direct {
		if to, err = loop.EnsureTopic(ctx, r.client, bus.Topic{Name: t.to}); err != nil {
			return to, fmt.Errorf("topic %s: %w", t.to, err)
		}
	}
	r.made[t.to] = to
	return to, nil
}

var errHops = errors.New("the event passed 16 rules from topic to topic: look for rules that feed each other in a circle")

var errNoKey = errors.New("the event has no partitionkey, and the target's topic is compacted: it keeps the latest event of each key")

// refused reports errors that say a topic can never be made or used.
func refused(err error) bool {
	return errors.Is(err, bus.ErrInvalid) || errors.Is(err, bus.ErrConflict) || errors.Is(err, bus.ErrUnsupported)
}

// refuse dead-letters an event that cannot go to a target.
func (r *router) refuse(ctx context.Context, f *follower, t *routeTarget, rec *event.Record, why error) error {
	if f.dead == "" {
		f.dead = f.rule.info.policy.Dead
		err := letters.Ensure(ctx, r.client, f.dead)
		if own := DeadTopic(f.rule.info.name); refused(err) && f.dead != own {
			r.t.Log.Warn("the dead-letter topic of a rule cannot be used; its own is", "rule", f.rule.info.name, "error", err)
			f.dead = own
			err = letters.Ensure(ctx, r.client, own)
		}
		if err != nil {
			f.dead = ""
			return err
		}
	}
	from := letters.Target{Group: RuleGroup(f.rule.info.name), Slot: loop.SlotName(t.to, 0), Key: rec.Key}
	*r.w.Link(f.dead) = letters.Link(rec, r.t.Origin(rec), from, "route", why)
	r.t.Counters.Dead.Add(1)
	return nil
}

// way is the overlay of an event that left its first place.
func way(origin string, hops int) []event.Attr {
	return []event.Attr{{Name: event.ExtOrigin, Value: origin}, {Name: event.ExtHops, Value: strconv.Itoa(hops)}}
}
