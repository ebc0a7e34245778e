package s3_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"

	"millrace/bus/event"
)

// random changes a bucket at random while a source that crashes at random reads
// it. In the end the events tell the bucket.
func random(b *bucket) {
	t := b.t
	length := 5 * time.Second
	if text := os.Getenv("MILLRACE_SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("MILLRACE_SOAK: %v", err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := b.reader(map[string]any{"follow": false})
	bucket, told := map[string]string{}, map[string]string{}
	tell := func(events []event.Event) {
		for _, e := range events {
			if e.Data == nil {
				delete(told, e.Key)
			} else {
				told[e.Key] = string(e.Data)
			}
		}
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		key := fmt.Sprintf("%c/%d.md", 'a'+rnd.IntN(4), rnd.IntN(30))
		switch rnd.IntN(6) {
		case 0, 1, 2:
			bucket[key] = strconv.FormatUint(rnd.Uint64(), 36)
			b.put(key, bucket[key])
		case 3:
			delete(bucket, key)
			b.remove(key)
		case 4:
			events, err := r.read()
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			tell(events)
		case 5:
			r.crash(rnd)
		}
	}
	r.close() // it may have ended before the last change
	tell(r.all())
	if diff := cmp.Diff(bucket, told); diff != "" {
		t.Error(diff)
	}
}

// crash closes the source, sometimes after an answer that is never stored.
func (r *reader) crash(rnd *rand.Rand) {
	if r.source != nil && rnd.IntN(2) == 0 {
		_, _ = r.source.Read(r.t.Context()) // lost with what it put
	}
	r.close()
}
