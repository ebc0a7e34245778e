// Package bustest holds what every bus.Client must pass, whatever engine or
// wire stands behind it. Run is called from the tests of each; a case that one
// cannot pass is excluded by name with the reason, and that is logged.
package bustest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/bus"
)

// Harness is one fresh, empty broker under test.
type Harness struct {
	Client bus.Client
	// Reopen ends the broker in an orderly way and starts it again on the same
	// data; nil means that it cannot, and cases named "reopen/…" must be excluded.
	// Client is not used after it, the one returned is.
	Reopen func(t *testing.T) bus.Client
	// Lease is the lease of group members, as the broker was told; 0 means 10 s.
	// Some cases wait for it to end and none is silent for long: take 3 s or so.
	Lease time.Duration
	// MaxEvent is the size in bytes above which an event is refused; 0 means 64 MiB.
	MaxEvent int
	// Exclude names cases that this client cannot pass, with the reason. A name
	// that ends in "/" stands for all cases that begin with it.
	Exclude map[string]string
}

// testCase is one promise of bus.Client.
type testCase struct {
	name string
	run  func(*fixture)
}

// cases are all promises, by what they are about.
func cases() []testCase {
	return slices.Concat(topicCases(), appendCases(), reopenCases(), linkCases(), readCases(), compactedCases(),
		checkpointCases(), resetCases(), groupCases(), concurrencyCases(), modelCases())
}

// Run runs every case as a subtest, each on a harness of its own and all in
// parallel: open may be called from many goroutines and registers its own
// clean-up.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	probe := open(t)
	for name := range probe.Exclude {
		if !slices.ContainsFunc(cases(), func(c testCase) bool { return matches(c.name, name) }) {
			t.Errorf("excluded case %q does not exist", name)
		}
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			for name, reason := range probe.Exclude {
				if matches(c.name, name) {
					t.Skipf("excluded %s: %s", c.name, reason)
				}
			}
			t.Parallel()
			c.run(newFixture(t, open(t)))
		})
	}
}

func matches(name, excluded string) bool {
	return name == excluded || strings.HasSuffix(excluded, "/") && strings.HasPrefix(name, excluded)
}
