package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/bus/group"
)

// member is a membership of this process, or one that the rpc server keeps for
// a remote worker.
type member struct {
	bus   *Bus
	group string
	id    string
	last  []Slot // what the last answer held
}

// Join implements Client.
func (b *Bus) Join(_ context.Context, name string, slots []string) (Member, error) {
	if !validTopicName(name) {
		return nil, &Error{Kind: ErrInvalid, Thing: "group " + name, Field: "name", Msg: "use 1 to 249 letters, digits, '.', '_' and '-'"}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.members++
	m := &member{bus: b, group: name, id: fmt.Sprintf("m%d-%d", b.o.Now().Unix(), b.members)}
	b.groups.Join(b.o.Now(), name, m.id, slots)
	b.tellMembers()
	return m, nil
}

// Slots implements Member.
func (m *member) Slots(ctx context.Context) ([]Slot, error) {
	b := m.bus
	timer := time.NewTimer(b.o.Lease / 3)
	defer timer.Stop()
	timeout := false
	for {
		b.mu.Lock()
		slots, ok := b.groups.Heartbeat(b.o.Now(), m.group, m.id)
		changed := b.changed
		b.groupsChanged()
		b.mu.Unlock()
		if !ok {
			return nil, &Error{Kind: ErrNoMember, Thing: "group " + m.group, Msg: "the lease has ended: join again"}
		}
		out := make([]Slot, len(slots))
		for i, s := range slots {
			out[i] = Slot(s)
		}
		same := slices.EqualFunc(out, m.last, func(x, y Slot) bool { return x.Name == y.Name && x.Epoch == y.Epoch })
		if !same || timeout {
			m.last = out
			return out, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			timeout = true
		case <-b.stopping:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Leave implements Member.
func (m *member) Leave(context.Context) error {
	m.bus.mu.Lock()
	defer m.bus.mu.Unlock()
	m.bus.groups.Leave(m.bus.o.Now(), m.group, m.id)
	m.bus.tellMembers()
	return nil
}

// groupsChanged lets groupLoop look for grants. Call it with mu held.
func (b *Bus) groupsChanged() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// tellMembers wakes every member that waits in Slots. Call it with mu held.
func (b *Bus) tellMembers() {
	close(b.changed)
	b.changed = make(chan struct{})
	b.groupsChanged()
}

// groupLoop ends leases in time and makes decided grants durable; only then do
// they come into force.
func (b *Bus) groupLoop() {
	timer := time.NewTimer(b.o.Lease)
	defer timer.Stop()
	for {
		b.mu.Lock()
		now := b.o.Now()
		if due, ok := b.groups.Next(); ok && !due.After(now) {
			b.groups.Tick(now)
			b.tellMembers()
		}
		grants := b.groups.Grants()
		next, ok := b.groups.Next()
		b.mu.Unlock()
		if len(grants) > 0 {
			err := b.storeGrants(context.Background(), grants, nil)
			if err == nil {
				continue
			}
			if b.Err() != nil || errors.Is(err, ErrClosed) {
				return
			}
			b.o.Logger.Warn("grants not stored, tried again", "error", err)
			ok, next = true, now.Add(time.Second)
		}
		wait := b.o.Lease
		if ok {
			wait = max(time.Millisecond, next.Sub(now))
		}
		timer.Reset(wait)
		select {
		case <-b.kick:
		case <-timer.C:
		case <-b.stopping:
			return
		}
	}
}

// storeGrants appends epochs, and the checkpoints that a reset sets with them.
func (b *Bus) storeGrants(ctx context.Context, grants []group.Grant, saves []Checkpoint) error {
	enc := b.encoder(&pending{grants: grants, saves: saves, reset: true})
	for _, g := range grants {
		data, err := json.Marshal(grantRecord{Group: g.Group, Slot: g.Slot, Member: g.Member, Epoch: g.Epoch})
		if err != nil {
			return fmt.Errorf("group %s: %w", g.Group, err)
		}
		if err := enc.keyed(TopicCluster, "millrace.epoch", "/groups/"+g.Group, g.Group+"/"+g.Slot, data); err != nil {
			return err
		}
	}
	for i := range saves {
		if err := enc.save(&saves[i]); err != nil {
			return err
		}
	}
	enc.out.owners = nil // a reset owns nothing, it fences
	p, err := enc.finish("")
	if err != nil {
		return err
	}
	_, err = b.submit(ctx, p)
	return err
}

// granted puts durable grants into force; the committer calls it.
func (b *Bus) granted(grants []group.Grant) {
	if len(grants) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range grants {
		b.groups.Granted(g)
	}
	b.tellMembers()
}

// remember takes durable checkpoints over; the committer calls it.
func (b *Bus) remember(saves []Checkpoint, reset bool) {
	if len(saves) == 0 {
		return
	}
	ts := b.topics.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range saves {
		if c.Positions != nil {
			continue
		}
		r := savedRecord{Group: c.Group, Slot: c.Slot, Next: c.Next, Epoch: c.Epoch, Follows: c.Follows, Reset: reset}
		if topic, _, ok := splitSlot(c.Slot); ok {
			if t := ts.byName[topic]; t != nil {
				r.TopicID = t.ID
			}
		}
		b.saved[slotKey{c.Group, c.Slot}] = r
	}
}

// Checkpoint implements Client.
func (b *Bus) Checkpoint(_ context.Context, name, slot string) (Saved, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.checkpoint(name, slot), nil
}

// checkpoint reads a slot's checkpoint with mu held.
func (b *Bus) checkpoint(name, slot string) Saved {
	s := Saved{Next: -1, Epoch: b.groups.Epoch(name, slot)}
	r, ok := b.saved[slotKey{name, slot}]
	if !ok || !b.sameTopic(r) {
		s.Reset = ok
		return s
	}
	s.Next, s.Follows, s.Reset = r.Next, r.Follows, r.Reset
	if r.Follows != "" {
		if f, ok := b.saved[slotKey{r.Follows, slot}]; ok && b.sameTopic(f) {
			s.Next = max(s.Next, f.Next)
		}
	}
	return s
}

// sameTopic reports whether a checkpoint was made for the topic as it is now.
func (b *Bus) sameTopic(r savedRecord) bool {
	topic, _, ok := splitSlot(r.Slot)
	if !ok || r.TopicID == 0 {
		return true
	}
	t := b.topics.Load().byName[topic]
	return t != nil && t.ID == r.TopicID
}

// Positions implements Client.
func (b *Bus) Positions(ctx context.Context, name string) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	prefix := name + "/"
	for after := ""; ; {
		recs, err := b.Scan(ctx, TopicPositions, prefix, after, 0)
		if err != nil {
			return nil, err
		}
		for i := range recs {
			after = recs[i].Key
			out[strings.TrimPrefix(after, prefix)] = json.RawMessage(recs[i].Data)
		}
		if len(recs) == 0 {
			return out, nil
		}
	}
}

// Groups implements Client.
func (b *Bus) Groups(ctx context.Context) ([]GroupInfo, error) {
	b.mu.Lock()
	names := map[string]struct{}{}
	for _, g := range b.groups.Groups() {
		names[g] = struct{}{}
	}
	slots := map[string][]string{}
	for k := range b.saved {
		names[k.group] = struct{}{}
		slots[k.group] = append(slots[k.group], k.slot)
	}
	b.mu.Unlock()
	out := make([]GroupInfo, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		info, err := b.groupInfo(ctx, name, slots[name])
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, ctx.Err()
}

func (b *Bus) groupInfo(ctx context.Context, name string, saved []string) (GroupInfo, error) {
	info := GroupInfo{Name: name}
	bySlot := map[string]SlotInfo{}
	b.mu.Lock()
	for _, s := range b.groups.Describe(name).Slots {
		bySlot[s.Name] = SlotInfo{Slot: s.Name, Owner: s.Owner, Epoch: s.Epoch, Checkpoint: b.checkpoint(name, s.Name).Next}
	}
	for _, s := range saved {
		if _, ok := bySlot[s]; !ok {
			bySlot[s] = SlotInfo{Slot: s, Checkpoint: b.checkpoint(name, s).Next}
		}
	}
	b.mu.Unlock()
	for _, s := range slices.Sorted(maps.Keys(bySlot)) {
		si := bySlot[s]
		if topic, queue, ok := splitSlot(s); ok {
			bounds, err := b.Bounds(ctx, topic)
			if err != nil && !errors.Is(err, ErrNoTopic) {
				return info, err
			}
			if queue < len(bounds) {
				si.Topic, si.Bound = topic, bounds[queue]
			} else if topic != "task" {
				continue // of a topic that is gone
			}
		}
		info.Slots = append(info.Slots, si)
	}
	return info, nil
}

// ResetGroup implements Client.
func (b *Bus) ResetGroup(ctx context.Context, name string, to []Cursor) error {
	for i := range to {
		if _, err := b.cursorTopic(&to[i]); err != nil {
			return err
		}
		if to[i].Next < 0 {
			return &Error{Kind: ErrInvalid, Thing: "group " + name, Field: "next", Msg: "must not be negative"}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	grants := make([]group.Grant, len(to))
	saves := make([]Checkpoint, len(to))
	for i, c := range to {
		slot := fmt.Sprintf("%s/%d", c.Topic, c.Queue)
		grants[i] = b.groups.Bump(name, slot)
		saves[i] = Checkpoint{Owner: Owner{Group: name, Slot: slot, Epoch: grants[i].Epoch}, Next: c.Next}
	}
	b.mu.Unlock()
	return b.storeGrants(context.WithoutCancel(ctx), grants, saves)
}

// ForgetGroup implements Client.
func (b *Bus) ForgetGroup(ctx context.Context, name string) error {
	enc := b.encoder(&pending{forget: name})
	for _, topic := range []string{TopicOffsets, TopicPositions, TopicCluster} {
		for after := ""; ; {
			recs, err := b.Scan(ctx, topic, name+"/", after, 0)
			if err != nil {
				return err
			}
			for i := range recs {
				after = recs[i].Key
				if err := enc.keyed(topic, recs[i].Type, recs[i].Source, after, nil); err != nil {
					return err
				}
			}
			if len(recs) == 0 {
				break
			}
		}
	}
	if len(enc.runs) > 0 {
		p, err := enc.finish("")
		if err != nil {
			return err
		}
		if _, err := b.submit(context.WithoutCancel(ctx), p); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.saved, func(k slotKey, _ savedRecord) bool { return k.group == name })
	b.groups.Forget(name)
	b.tellMembers()
	return nil
}
