package group

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

func newMember() *member { return &member{names: map[string]struct{}{}} }

func (s *State) group(name string) *group {
	g := s.groups[name]
	if g == nil {
		g = &group{members: map[string]*member{}, slots: map[string]*slot{}}
		s.groups[name] = g
	}
	return g
}

func (g *group) slot(name string) *slot {
	sl := g.slots[name]
	if sl == nil {
		sl = &slot{}
		g.slots[name] = sl
	}
	return sl
}

// free takes a slot from its owner.
func (sl *slot) free() { sl.owner, sl.shown, sl.told = "", false, false }

// remove ends a membership; the caller shares the slots out again.
func (s *State) remove(g *group, member string) {
	delete(g.members, member)
	for _, sl := range g.slots {
		if sl.owner == member {
			sl.free()
		}
	}
}

// expire ends what has run out in one group.
func (s *State) expire(now time.Time, name string) {
	g := s.groups[name]
	if g == nil {
		return
	}
	lost := false
	for id, m := range g.members {
		if !now.Before(m.end) {
			s.remove(g, id)
			lost = true
		}
	}
	for slot, sl := range g.slots {
		if !sl.hold.IsZero() && !now.Before(sl.hold) {
			sl.hold = time.Time{}
			s.settle(name, slot, sl)
		}
	}
	if lost {
		s.share(name, g)
	}
}

// settle brings a slot one step nearer to its target: an owner that never
// heard of the slot loses it at once, and a free slot gets a grant.
func (s *State) settle(group, name string, sl *slot) {
	if sl.owner != "" && sl.owner != sl.target && !sl.shown {
		sl.free()
	}
	if sl.owner != "" || sl.target == "" || !sl.hold.IsZero() {
		sl.pending = nil
		return
	}
	// An epoch stands for one decision only, and none is used after a higher one.
	if p := sl.pending; p == nil || p.Member != sl.target || p.Epoch < sl.used {
		sl.used = max(sl.used, s.floor) + 1
		sl.pending = &Grant{Group: group, Slot: name, Member: sl.target, Epoch: sl.used}
	}
	s.dirty[group] = struct{}{}
}

// share decides anew who shall own each slot of a group: evenly, and with the
// fewest slots moving away from the members that hold them.
func (s *State) share(name string, g *group) {
	named := map[string]struct{}{}
	for _, m := range g.members {
		maps.Copy(named, m.names)
	}
	for slot := range named {
		g.slot(slot)
	}
	names := slices.Sorted(maps.Keys(named))

	held := map[string][]string{} // member → slots it owns, or is to own
	aimed := map[string]int{}     // member → slots it is to own
	for _, n := range names {
		sl := g.slots[n]
		if g.members[sl.target] != nil {
			aimed[sl.target]++
		}
		if h := g.holder(sl); h != "" {
			held[h] = append(held[h], n)
		}
	}

	// The members that hold most get the larger shares, where shares differ.
	members := slices.Collect(maps.Keys(g.members))
	slices.SortFunc(members, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(held[b]), len(held[a])), cmp.Compare(aimed[b], aimed[a]), cmp.Compare(a, b))
	})
	room := make(map[string]int, len(members))
	next := make(map[string]string, len(names))
	for i, m := range members {
		room[m] = len(names) / len(members)
		if i < len(names)%len(members) {
			room[m]++
		}
		slices.SortStableFunc(held[m], func(a, b string) int {
			return cmp.Compare(g.slots[a].looseness(m), g.slots[b].looseness(m))
		})
		for _, n := range held[m][:min(room[m], len(held[m]))] {
			next[n] = m
			room[m]--
		}
	}
	// The rest goes where it was going already, else to whoever has room.
	for _, n := range names {
		if t := g.slots[n].target; next[n] == "" && room[t] > 0 {
			next[n] = t
			room[t]--
		}
	}
	i := 0
	for _, n := range names {
		if next[n] != "" || len(members) == 0 {
			continue
		}
		for room[members[i]] == 0 {
			i++
		}
		next[n] = members[i]
		room[members[i]]--
	}

	for n, sl := range g.slots {
		if sl.target = next[n]; sl.target == sl.owner {
			sl.told = false
		}
		s.settle(name, n, sl)
		// Forgotten when nobody names it, has it or ever had it.
		if _, ok := named[n]; !ok && sl.owner == "" && sl.used == 0 && sl.hold.IsZero() {
			delete(g.slots, n)
		}
	}
	if len(g.members) == 0 && len(g.slots) == 0 {
		delete(s.groups, name)
	}
}

// holder is the member that a slot should best stay with: its owner, else the
// one it is being granted to.
func (g *group) holder(sl *slot) string {
	if sl.owner != "" {
		return sl.owner
	}
	if g.members[sl.target] != nil {
		return sl.target
	}
	return ""
}

// looseness says how readily member m, its holder, gives a slot up: last what
// it works on, first what is on its way out already.
func (sl *slot) looseness(m string) int {
	switch {
	case sl.target != m:
		return 2
	case sl.owner != m:
		return 1
	}
	return 0
}
