package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const lease = 10 * time.Second

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(sec int) time.Time { return t0.Add(time.Duration(sec) * time.Second) }

// grant puts every decided grant in force.
func grant(s *State) (n int) {
	for _, g := range s.Grants() {
		s.Granted(g)
		n++
	}
	return n
}

// owned is a heartbeat's answer as "name@epoch".
func owned(t *testing.T, s *State, now time.Time, group, member string) []string {
	t.Helper()
	slots, ok := s.Heartbeat(now, group, member)
	if !ok {
		t.Fatalf("%s is not a member of %s", member, group)
	}
	out := []string{}
	for _, sl := range slots {
		if want := now.Add(lease - lease/5); !sl.Until.Equal(want) {
			t.Fatalf("slot %s: until %s, want %s", sl.Name, sl.Until, want)
		}
		out = append(out, fmt.Sprintf("%s@%d", sl.Name, sl.Epoch))
	}
	return out
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func TestOneMemberOwnsAllOnceStored(t *testing.T) {
	s := New(lease)
	s.Join(at(0), "g", "a", []string{"t/0", "t/1"})
	same(t, "before any grant", owned(t, s, at(0), "g", "a"), []string{})
	want := []Grant{{"g", "t/0", "a", 1}, {"g", "t/1", "a", 1}}
	same(t, "grants", s.Grants(), want)
	same(t, "grants again", s.Grants(), want)
	same(t, "epoch not stored", s.Epoch("g", "t/0"), uint64(0))
	s.Granted(want[0])
	same(t, "one stored", owned(t, s, at(1), "g", "a"), []string{"t/0@1"})
	s.Granted(want[1])
	same(t, "both stored", owned(t, s, at(1), "g", "a"), []string{"t/0@1", "t/1@1"})
	same(t, "no more grants", len(s.Grants()), 0)
	same(t, "epoch", s.Epoch("g", "t/1"), uint64(1))
	same(t, "describe", s.Describe("g"), Info{Members: []string{"a"}, Slots: []SlotInfo{{"t/0", "a", 1}, {"t/1", "a", 1}}})
	same(t, "groups", s.Groups(), []string{"g"})
}

func TestHandOver(t *testing.T) {
	s := New(lease)
	slots := []string{"t/0", "t/1"}
	s.Join(at(0), "g", "a", slots)
	grant(s)
	owned(t, s, at(0), "g", "a")
	s.Join(at(1), "g", "b", slots)
	same(t, "nothing moves before the owner has stopped", grant(s), 0)
	same(t, "the owner is asked to stop one", owned(t, s, at(1), "g", "a"), []string{"t/0@1"})
	same(t, "still in its hands", grant(s), 0)
	same(t, "b waits", owned(t, s, at(1), "g", "b"), []string{})
	same(t, "a has stopped", owned(t, s, at(2), "g", "a"), []string{"t/0@1"})
	same(t, "grants", s.Grants(), []Grant{{"g", "t/1", "b", 2}})
	grant(s)
	same(t, "b owns it", owned(t, s, at(2), "g", "b"), []string{"t/1@2"})

	s.Leave(at(3), "g", "b")
	grant(s)
	same(t, "b gave it back", owned(t, s, at(3), "g", "a"), []string{"t/0@1", "t/1@3"})
	_, ok := s.Heartbeat(at(3), "g", "b")
	same(t, "b is a member", ok, false)
}

func TestLeaseEnds(t *testing.T) {
	s := New(lease)
	slots := []string{"t/0", "t/1"}
	s.Join(at(0), "g", "a", slots)
	s.Join(at(0), "g", "b", slots)
	grant(s)
	owned(t, s, at(0), "g", "a")
	owned(t, s, at(5), "g", "b")
	next, ok := s.Next()
	same(t, "next", next, at(10))
	same(t, "has next", ok, true)
	s.Tick(at(9))
	same(t, "too early", grant(s), 0)
	s.Tick(at(10))
	same(t, "a is gone", s.Grants(), []Grant{{"g", "t/0", "b", 2}})
	grant(s)
	same(t, "b owns both", owned(t, s, at(10), "g", "b"), []string{"t/0@2", "t/1@2"})
	_, ok = s.Heartbeat(at(11), "g", "a")
	same(t, "a may come back", ok, false)
	_, ok = s.Heartbeat(at(20), "g", "b")
	same(t, "b's lease ended without a Tick", ok, false)
	_, ok = s.Next()
	same(t, "nothing to wait for", ok, false)
	same(t, "epochs outlive members", s.Describe("g").Slots, []SlotInfo{{"t/0", "", 2}, {"t/1", "", 2}})
}

func TestSlotsAreTheUnion(t *testing.T) {
	s := New(lease)
	s.Join(at(0), "g", "a", []string{"x"})
	s.Join(at(0), "g", "b", []string{"x", "y"})
	grant(s)
	a, b := owned(t, s, at(0), "g", "a"), owned(t, s, at(0), "g", "b")
	all := slices.Sorted(slices.Values(append(a, b...)))
	same(t, "all", all, []string{"x@1", "y@1"})
	same(t, "shared", len(a), len(b))
	s.Join(at(1), "g", "b", nil) // nobody names y now
	owned(t, s, at(1), "g", "a")
	owned(t, s, at(1), "g", "b")
	owned(t, s, at(2), "g", "a")
	owned(t, s, at(2), "g", "b")
	grant(s)
	for _, sl := range s.Describe("g").Slots {
		if (sl.Owner != "") != (sl.Name == "x") {
			t.Fatalf("owners: %+v", s.Describe("g").Slots)
		}
	}
}

func TestBump(t *testing.T) {
	s := New(lease)
	s.Join(at(0), "g", "a", []string{"t/0"})
	grant(s)
	owned(t, s, at(0), "g", "a")
	g := s.Bump("g", "t/0")
	same(t, "bump", g, Grant{"g", "t/0", "a", 2})
	same(t, "not listed", len(s.Grants()), 0)
	same(t, "not in force", owned(t, s, at(1), "g", "a"), []string{"t/0@1"})
	same(t, "takes force", s.Granted(g), true)
	same(t, "the owner keeps it", owned(t, s, at(1), "g", "a"), []string{"t/0@2"})

	// Without an owner, and for a slot never heard of.
	g = s.Bump("other", "x")
	same(t, "bump", g, Grant{"other", "x", "", 1})
	s.Granted(g)
	same(t, "epoch", s.Epoch("other", "x"), uint64(1))

	// One that is overtaken changes nothing.
	lost := s.Bump("g", "t/0")
	s.Granted(s.Bump("g", "t/0"))
	same(t, "overtaken", s.Granted(lost), false)
	same(t, "epoch", s.Epoch("g", "t/0"), uint64(4))

	// While a grant is waiting to be stored, the grant moves above it.
	s.Join(at(1), "h", "a", []string{"x"})
	waiting := s.Grants()[0]
	g = s.Bump("h", "x")
	s.Granted(g)
	if s.Granted(waiting) || s.Epoch("h", "x") != g.Epoch {
		t.Fatalf("a grant below the reset took force")
	}
	grant(s)
	same(t, "above", owned(t, s, at(1), "h", "a"), []string{"x@3"})
}

func TestGrantForMemberThatLeft(t *testing.T) {
	s := New(lease)
	s.Join(at(0), "g", "a", []string{"x"})
	stored := s.Grants()[0]
	s.Leave(at(0), "g", "a")
	s.Join(at(0), "g", "b", []string{"x"})
	same(t, "in force", s.Granted(stored), true)
	same(t, "nobody's", s.Describe("g").Slots, []SlotInfo{{"x", "", 1}})
	grant(s)
	same(t, "b's", s.Describe("g").Slots, []SlotInfo{{"x", "b", 2}})
}

func TestRestoreHoldForget(t *testing.T) {
	s := New(lease)
	s.Restore("g", "x", 7)
	s.Restore("g", "x", 3)
	s.Hold("g", "x", at(10))
	s.Join(at(0), "g", "a", []string{"x", "y"})
	same(t, "held back", s.Grants(), []Grant{{"g", "y", "a", 1}})
	grant(s)
	s.Heartbeat(at(5), "g", "a")
	next, _ := s.Next()
	same(t, "next", next, at(10))
	s.Tick(at(10))
	same(t, "free", s.Grants(), []Grant{{"g", "x", "a", 8}})
	pending := s.Grants()[0]
	s.Forget("g")
	same(t, "gone", s.Epoch("g", "x"), uint64(0))
	same(t, "late", s.Granted(pending), false)
	same(t, "groups", len(s.Groups()), 0)
	s.Join(at(11), "g", "a", []string{"x"})
	same(t, "above all it had", s.Grants(), []Grant{{"g", "x", "a", 9}})
}

func TestNeverToldIsFreedAtOnce(t *testing.T) {
	s := New(lease)
	s.Join(at(0), "g", "a", []string{"x", "y"})
	grant(s) // a has not heard of them
	s.Join(at(0), "g", "b", []string{"x", "y"})
	same(t, "one goes to b without a's word", grant(s), 1)
	same(t, "b", owned(t, s, at(0), "g", "b"), []string{"y@2"})
	same(t, "a", owned(t, s, at(0), "g", "a"), []string{"x@1"})
}

func TestEmpty(t *testing.T) {
	s := New(0)
	same(t, "default", s.Lease(), DefaultLease)
	s.Leave(at(0), "g", "a")
	s.Forget("g")
	s.Tick(at(0))
	same(t, "describe", s.Describe("g"), Info{})
	s.Join(at(0), "g", "a", nil)
	same(t, "groups", s.Groups(), []string{"g"})
	s.Leave(at(0), "g", "a")
	same(t, "groups", len(s.Groups()), 0)
}
