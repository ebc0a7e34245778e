package commitlog_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// soak calls test with new seeds for MILLRACE_SOAK (5 s), or once with
// MILLRACE_SEED, and says which seed failed.
func soak(t *testing.T, test func(seed uint64) error) {
	t.Helper()
	length := 5 * time.Second
	if s := os.Getenv("MILLRACE_SOAK"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatalf("MILLRACE_SOAK: %v", err)
		}
		length = d
	}
	if s := os.Getenv("MILLRACE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("MILLRACE_SEED: %v", err)
		}
		if err := test(seed); err != nil {
			t.Fatal(err)
		}
		return
	}
	runs := 0
	for start := time.Now(); runs == 0 || time.Since(start) < length; runs++ {
		seed := rand.Uint64()
		if err := test(seed); err != nil {
			t.Fatalf("run %d, MILLRACE_SEED=%d: %v", runs, seed, err)
		}
	}
	t.Logf("%d runs", runs)
}
