package group

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// DefaultLease is how long a member lives without a heartbeat.
const DefaultLease = 10 * time.Second

// Slot is one slot a member owns. It starts no external write after Until.
type Slot struct {
	Name  string
	Epoch uint64
	Until time.Time
}

// Grant is a slot given to a member under an epoch. Member is empty when an
// epoch was raised while nobody owned the slot.
type Grant struct {
	Group, Slot, Member string
	Epoch               uint64
}

// State holds all groups. It is not safe for concurrent use: the bus calls it
// under one lock. Times given to it must not go back.
type State struct {
	lease  time.Duration
	floor  uint64 // every epoch of a forgotten group is at most this
	groups map[string]*group
	dirty  map[string]struct{} // groups that may have grants to store
}

type group struct {
	members map[string]*member
	slots   map[string]*slot
}

type member struct {
	end   time.Time // of the lease
	names map[string]struct{}
}

type slot struct {
	epoch uint64 // in force, that is stored
	used  uint64 // the highest any grant or reset ever had; ≥ epoch

	owner string // in force; "" = nobody
	shown bool   // the owner has been told that it owns the slot
	told  bool   // the owner's last answer left the slot out: its next heartbeat frees it

	target  string    // who shall own it; "" = nobody
	pending *Grant    // decided, not yet in force; only while owner is ""
	hold    time.Time // no grant before; zero = none
}

// New returns an empty State; lease 0 means DefaultLease.
func New(lease time.Duration) *State {
	if lease <= 0 {
		lease = DefaultLease
	}
	return &State{lease: lease, groups: map[string]*group{}, dirty: map[string]struct{}{}}
}

// Lease returns how long a member lives without a heartbeat.
func (s *State) Lease() time.Duration { return s.lease }

// Join makes member one of the group, or renews its lease and replaces the
// slots it named. The group shares out the union of what its members name.
func (s *State) Join(now time.Time, group, member string, slots []string) {
	s.expire(now, group)
	g := s.group(group)
	m := g.members[member]
	if m == nil {
		m = newMember()
		g.members[member] = m
	}
	m.end = now.Add(s.lease)
	m.names = make(map[string]struct{}, len(slots))
	for _, name := range slots {
		m.names[name] = struct{}{}
	}
	s.share(group, g)
}

// Heartbeat renews the member's lease, takes the call as word that every slot
// missing from its previous answer has been stopped, and returns what it owns
// now, by name. False: it is not a member, or its lease has ended.
//
// An answer that differs from the one before must reach the member before the
// next Heartbeat is called in its name.
func (s *State) Heartbeat(now time.Time, group, member string) ([]Slot, bool) {
	s.expire(now, group)
	g := s.groups[group]
	if g == nil || g.members[member] == nil {
		return nil, false
	}
	m := g.members[member]
	m.end = now.Add(s.lease)
	until := m.end.Add(-s.lease / 5) // Invariant 11: the owner stops before the lease does
	var owned []Slot
	for name, sl := range g.slots {
		if sl.owner != member {
			continue
		}
		switch {
		case sl.target == member:
			sl.shown, sl.told = true, false
			owned = append(owned, Slot{Name: name, Epoch: sl.epoch, Until: until})
		case sl.told:
			sl.free()
			s.settle(group, name, sl)
		default:
			sl.told = true
		}
	}
	slices.SortFunc(owned, func(a, b Slot) int { return cmp.Compare(a.Name, b.Name) })
	return owned, true
}

// Leave ends a membership at once: the caller has stopped all its slots.
func (s *State) Leave(now time.Time, group, member string) {
	s.expire(now, group)
	if g := s.groups[group]; g != nil && g.members[member] != nil {
		s.remove(g, member)
		s.share(group, g)
	}
}

// Tick ends the leases and holds that have run out.
func (s *State) Tick(now time.Time) {
	for name := range s.groups {
		s.expire(now, name)
	}
}

// Next returns when Tick has something to do; false = never, as things are.
func (s *State) Next() (time.Time, bool) {
	var next time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, g := range s.groups {
		for _, m := range g.members {
			earlier(m.end)
		}
		for _, sl := range g.slots {
			earlier(sl.hold)
		}
	}
	return next, !next.IsZero()
}

// Restore tells, on open, the highest epoch a slot was ever granted under.
func (s *State) Restore(group, slot string, epoch uint64) {
	sl := s.group(group).slot(slot)
	sl.epoch = max(sl.epoch, epoch)
	sl.used = max(sl.used, sl.epoch)
	s.settle(group, slot, sl)
}

// Hold keeps a slot from being granted before until. On open it covers what an
// owner in another process, whose lease this State does not know, may still do:
// a full lease from now is enough.
func (s *State) Hold(group, slot string, until time.Time) {
	sl := s.group(group).slot(slot)
	if sl.owner == "" && until.After(sl.hold) {
		sl.hold = until
		s.settle(group, slot, sl)
	}
}

// Grants returns what is decided but not in force, by group and slot. The bus
// stores each durably, then calls Granted. Until then it is returned again.
func (s *State) Grants() []Grant {
	var out []Grant
	for name := range s.dirty {
		n := len(out)
		if g := s.groups[name]; g != nil {
			for _, sl := range g.slots {
				if sl.pending != nil {
					out = append(out, *sl.pending)
				}
			}
		}
		if len(out) == n {
			delete(s.dirty, name)
		}
	}
	slices.SortFunc(out, func(a, b Grant) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Slot, b.Slot))
	})
	return out
}

// Granted says that g is durable: its epoch is in force, and its member owns
// the slot unless it has gone meanwhile. False: a higher epoch is in force
// already, or the group was forgotten; g changes nothing.
func (s *State) Granted(g Grant) bool {
	gr := s.groups[g.Group]
	if gr == nil || gr.slots[g.Slot] == nil {
		s.floor = max(s.floor, g.Epoch)
		return false
	}
	sl := gr.slots[g.Slot]
	sl.used = max(sl.used, g.Epoch)
	if g.Epoch <= sl.epoch { // Invariant 11: epochs only rise
		return false
	}
	sl.epoch = g.Epoch
	if sl.pending != nil && *sl.pending == g {
		sl.pending = nil
		sl.owner, sl.shown, sl.told = g.Member, false, false
	}
	s.settle(g.Group, g.Slot, sl)
	return true
}

// Bump sets aside the next epoch of a slot for a reset. The bus stores it
// together with the new checkpoint and calls Granted, all before it stores
// another grant of that slot; the owner, if there is one, then keeps the slot
// under the new epoch. Nothing changes if Granted is never called.
func (s *State) Bump(group, slot string) Grant {
	sl := s.group(group).slot(slot)
	sl.used = max(sl.used, s.floor) + 1
	bump := Grant{Group: group, Slot: slot, Member: sl.owner, Epoch: sl.used}
	s.settle(group, slot, sl) // a grant that waits moves above it
	return bump
}

// Epoch returns the epoch in force, 0 if the slot was never granted.
func (s *State) Epoch(group, slot string) uint64 {
	if g := s.groups[group]; g != nil && g.slots[slot] != nil {
		return g.slots[slot].epoch
	}
	return 0
}

// Forget drops a group, its members and its epochs. Should the group come
// back, its epochs begin above all it had.
func (s *State) Forget(group string) {
	g := s.groups[group]
	if g == nil {
		return
	}
	for _, sl := range g.slots {
		s.floor = max(s.floor, sl.used)
	}
	delete(s.groups, group)
	delete(s.dirty, group)
}

// Info describes a group: its members and every slot that is named by one of
// them or was ever granted, both sorted.
type Info struct {
	Members []string
	Slots   []SlotInfo
}

// SlotInfo is one slot of an Info. Owner is empty when nobody has it in force.
type SlotInfo struct {
	Name, Owner string
	Epoch       uint64
}

// Describe returns what is known of a group; an unknown one is empty.
func (s *State) Describe(group string) Info {
	var info Info
	g := s.groups[group]
	if g == nil {
		return info
	}
	info.Members = slices.Sorted(maps.Keys(g.members))
	for _, name := range slices.Sorted(maps.Keys(g.slots)) {
		sl := g.slots[name]
		info.Slots = append(info.Slots, SlotInfo{Name: name, Owner: sl.owner, Epoch: sl.epoch})
	}
	return info
}

// Groups returns the names of all groups with members or epochs, sorted.
func (s *State) Groups() []string { return slices.Sorted(maps.Keys(s.groups)) }
