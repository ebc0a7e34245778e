package vectors

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/bus/event"
)

// TestFreshness writes random histories of about 50 documents: created, grown,
// shrunk, emptied and deleted; in parts, with events that come late, twice or in
// another order; the sink closed without a flush and opened again at its offsets.
// In the end the store holds what a store that saw only the last versions holds.
func TestFreshness(t *testing.T) {
	t.Parallel()
	for end := time.Now().Add(soak(t)); time.Now().Before(end); {
		seed := rand.Uint64()
		if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { fresh(t, rand.New(rand.NewPCG(seed, 0))) }) {
			return
		}
	}
}

// history is a log of documents' versions.
type history struct {
	log  [][]event.Record // by offset: the chunks of a version
	last map[string]int   // document → its last version
}

func newHistory(t *testing.T, r *rand.Rand) *history {
	t.Helper()
	h := &history{last: map[string]int{}}
	words := strings.Fields("alpha beta gamma delta epsilon zeta eta theta 数据 索引 备份")
	for offset := range 150 {
		name := fmt.Sprintf("doc %d", r.IntN(50))
		var recs []event.Record
		switch r.IntN(6) {
		case 0:
			recs = []event.Record{gone(int64(offset), name)}
		default:
			var text strings.Builder
			for range r.IntN(6) { // paragraphs; none empties it
				fmt.Fprintf(&text, "%s %s %d\n\n", words[r.IntN(len(words))], words[r.IntN(len(words))], r.IntN(5))
			}
			recs = records(t, int64(offset), name, text.String(), 20)
		}
		h.log, h.last[name] = append(h.log, recs), offset
	}
	return h
}

func fresh(t *testing.T, r *rand.Rand) {
	t.Helper()
	h := newHistory(t, r)
	b := setup(t, small)
	next := 0
	for next < len(h.log) {
		var batch []event.Record
		for range 1 + r.IntN(8) {
			if next == len(h.log) {
				break
			}
			batch = append(batch, h.log[next]...)
			next++
		}
		switch r.IntN(5) {
		case 0: // late or repeated, whole or in part; their own place says so
			old := h.log[r.IntN(next)]
			for _, rec := range old[r.IntN(len(old)):] {
				rec.Topic = "redriven"
				batch = append(batch, rec)
			}
		case 1: // the chunks of one document in another order
			last := h.log[next-1]
			at := len(batch) - len(last)
			r.Shuffle(len(last), func(i, j int) { batch[at+i], batch[at+j] = batch[at+j], batch[at+i] })
		}
		for len(batch) > 0 {
			n := 1 + r.IntN(len(batch))
			if err := b.sink.Write(t.Context(), batch[:n]); err != nil {
				t.Fatal(err)
			}
			if batch = batch[n:]; len(batch) > 0 && r.IntN(3) > 0 {
				continue
			}
			if n = len(batch); n > 0 && batch[0].Topic == "docs" && r.IntN(2) == 0 {
				continue // the runtime flushes behind whole records
			}
			if err := b.sink.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if r.IntN(4) == 0 { // it dies with what was not flushed
			b.sink.Close()
			b.open(t)
			offsets, err := b.sink.(*sink).Offsets(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			next = min(next, int(offsets["docs/0"]))
		}
	}
	want := setup(t, small)
	for _, offset := range slices.Sorted(maps.Values(h.last)) {
		want.write(t, h.log[offset]...)
	}
	const content = `select document || '|' || seq || '|' || id || '|' || text || '|' || metadata from chunks order by document, seq`
	got, expected := column(t, b.path(), content), column(t, want.path(), content)
	if !slices.Equal(got, expected) {
		t.Errorf("the store holds\n%s\nnot\n%s", strings.Join(got, "\n"), strings.Join(expected, "\n"))
	}
	for _, query := range []string{
		`select count(*) from chunks`,
		`select hex(v.embedding) from chunks c join vec v on v.id = c.rowid order by c.document, c.seq`,
		`select c.document || c.seq from fts f join chunks c on c.rowid = f.rowid where fts match 'alpha OR 数据' order by 1`,
		`select count(*) from vec`,
		`select count(*) from fts`,
	} {
		if got, expected := column(t, b.path(), query), column(t, want.path(), query); !slices.Equal(got, expected) {
			t.Errorf("%s: %v, not %v", query, got, expected)
		}
	}
}

// TestTogether runs two tasks of one connector on one file, beside a searcher that
// must always see a document whole.
func TestTogether(t *testing.T) {
	t.Parallel()
	a := setup(t, small)
	b := &bench{config: a.config, env: a.env}
	b.env.Task = 1
	b.open(t)
	defer b.sink.Close()
	const versions = 25
	fails := make(chan error, 2)
	work := func(s *bench, queue int) {
		fails <- func() error {
			for v := range versions {
				text := fmt.Sprintf("start v%d\n\nmiddle v%d\n\nfinish v%d", v, v, v)
				recs := records(t, int64(v), fmt.Sprintf("doc of %d", queue), text, 12)
				for i := range recs {
					recs[i].Queue, recs[i].Origin.Queue = queue, queue
				}
				if err := errors.Join(s.sink.Write(t.Context(), recs), s.sink.Flush(t.Context())); err != nil {
					return err
				}
			}
			return nil
		}()
	}
	go work(a, 0)
	go work(b, 1)
	for done := 0; done < 2; {
		select {
		case err := <-fails:
			if err != nil {
				t.Error(err)
			}
			done++
		default:
			seen := map[string][]string{}
			for _, line := range column(t, a.path(), `select document || '|' || text from chunks order by document, seq`) {
				doc, text, _ := strings.Cut(line, "|")
				seen[doc] = append(seen[doc], text)
			}
			for doc, texts := range seen {
				_, version, _ := strings.Cut(texts[0], " ")
				if len(texts) != 3 || !strings.HasSuffix(texts[1], version) || !strings.HasSuffix(texts[2], version) {
					t.Errorf("%s is seen as %q", doc, texts)
				}
			}
		}
	}
	offsets, err := a.sink.(*sink).Offsets(t.Context())
	if err != nil || offsets["docs/0"] != versions || offsets["docs/1"] != versions {
		t.Errorf("offsets %v %v", offsets, err)
	}
}

func soak(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("MILLRACE_SOAK")
	if text == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("MILLRACE_SOAK: %v", err)
	}
	return d
}
