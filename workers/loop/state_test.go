package loop

import (
	"fmt"
	"strings"
	"testing"

	"millrace/bus"
)

func TestStateSeesItsOwnPuts(t *testing.T) {
	t.Parallel()
	b, err := bus.Open(t.TempDir(), bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := t.Context()
	store := func(s *State) {
		t.Helper()
		if _, err := b.Append(ctx, bus.Batch{State: s.Take()}); err != nil {
			t.Fatal(err)
		}
		s.Stored()
	}
	want := func(s *State, prefix, want string) {
		t.Helper()
		var got []string
		for e, err := range s.Scan(ctx, prefix) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Key+"="+string(e.Value))
			v, ok, err := s.Get(ctx, e.Key)
			if err != nil || !ok || string(v) != string(e.Value) {
				t.Fatalf("get %s: %q %v %v, scan says %q", e.Key, v, ok, err, e.Value)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Fatalf("scan %q: %s, want %s", prefix, s, want)
		}
	}
	s, other := NewState(b, "a"), NewState(b, "ab")
	for i := range 3 {
		s.Put(fmt.Sprint("k", i), []byte("1"))
	}
	other.Put("k0", []byte("other"))
	store(other)
	want(s, "k", "k0=1 k1=1 k2=1")
	store(s)
	want(NewState(b, "a"), "k", "k0=1 k1=1 k2=1")
	s.Put("k1", []byte("2"))
	s.Delete("k2")
	s.Put("k3", nil)
	s.Put("j", []byte("0"))
	want(s, "", "j=0 k0=1 k1=2 k3=")
	want(NewState(b, "a"), "k", "k0=1 k1=1 k2=1") // not stored yet
	taken := s.Take()
	want(s, "k", "k0=1 k1=2 k3=") // on its way
	s.Put("k1", []byte("3"))
	want(s, "k", "k0=1 k1=3 k3=")
	if _, err := b.Append(ctx, bus.Batch{State: taken}); err != nil {
		t.Fatal(err)
	}
	s.Stored()
	want(s, "k", "k0=1 k1=3 k3=")
	want(NewState(b, "a"), "k", "k0=1 k1=2 k3=")
	if _, ok, err := s.Get(ctx, "k2"); ok || err != nil {
		t.Fatalf("deleted key: %v %v", ok, err)
	}
}
