package s3_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millrace/bus/event"
	"millrace/connectors/connectorstest"
	"millrace/connectors/s3"
)

// TestStore runs the source against versitygw.
func TestStore(t *testing.T) {
	t.Parallel()
	bin := build(t)
	shared := serve(t, bin)
	t.Log("counterpart: versitygw, an S3 server")
	for name, test := range map[string]func(*bucket){
		"conformance":         conformance,
		"pages":               pages,
		"changes":             changes,
		"late-keys":           lateKeys,
		"strange-keys":        strangeKeys,
		"content-types":       contentTypes,
		"bad-input":           badInput,
		"changed-in-mid-read": changedInMidRead,
		"gone-in-mid-read":    goneInMidRead,
		"reset":               reset,
		"gzip":                gzipped,
		"csv":                 csvRecords,
		"big-object":          bigObject,
		"wrong-config":        wrongConfig,
		"part-of-a-listing":   partOfAListing,
		"another-order":       anotherOrder,
		"random":              random,
		"real-bus":            realBus,
	} {
		t.Run(name, func(t *testing.T) { test(shared.bucket(t, name)) })
	}
	t.Run("killed-store", func(t *testing.T) {
		s := serve(t, bin)
		killedStore(s, s.bucket(t, "killed"))
	})
}

func conformance(b *bucket) {
	t := b.t
	b.put("in/a.ndjson", numbered(40, `{"n":%d}`+"\n"))
	b.put("in/b.md", "# b")
	b.put("in/c.csv", "x,y\n1,2\n3,\"4\n5\"\n")
	b.put("in/d.log", "one\n\ntwo")
	b.put("in/e.ndjson.gz", compress(t, numbered(30, `{"n":%d}`+"\n")))
	b.put("in/f.ndjson", numbered(2500, `{"n":%d}`+"\n"))
	for i := range 20 {
		b.put(fmt.Sprintf("in/sub/%d.html", i), fmt.Sprintf("<p>%d", i))
	}
	b.put("in/empty.ndjson", "")
	b.put("in/empty.txt", "")
	b.put("in/empty.md", "")
	b.put("out/z.md", "not below the prefix")
	connectorstest.Source(t, connectorstest.SourceCase{
		Plugin: s3.Plugin(), Config: b.config(map[string]any{"prefix": "in/"}), Waiting: b.config(map[string]any{"prefix": "in/", "follow": true}),
		Events: 40 + 1 + 2 + 2 + 30 + 2500 + 20 + 1,
	})
}

// pages reads more than one page of a listing, with a restart in each answer.
func pages(b *bucket) {
	t := b.t
	const n = 2300
	for i := range n {
		b.put(fmt.Sprintf("k%04d", i), strconv.Itoa(i))
	}
	r := b.reader(nil)
	var keys []string
	for {
		events, err := r.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			keys = append(keys, events[i].Key)
		}
		r.close()
	}
	if len(keys) != n || !slices.IsSorted(keys) || r.state.Len() != n {
		t.Errorf("%d objects, %d remembered, not %d each in order", len(keys), r.state.Len(), n)
	}
	if again := r.all(); len(again) != 0 {
		t.Errorf("%d objects again", len(again))
	}
	for i := 0; i < n; i += 100 {
		b.remove(fmt.Sprintf("k%04d", i))
	}
	if gone := r.all(); len(gone) != n/100 || gone[0].Data != nil || gone[0].Key != "k0000" {
		t.Errorf("%d deletions: %v", len(gone), short(gone))
	}
	if r.state.Len() != n-n/100 {
		t.Errorf("%d objects remembered", r.state.Len())
	}
}

func changes(b *bucket) {
	t := b.t
	r := b.reader(nil)
	b.put("a.md", "one")
	b.put("b.md", "two")
	b.put("c.ndjson", "1\n2\n")
	first := r.all()
	check(t, short(first), []string{"object a.md one", "object b.md two", "line c.ndjson 1", "line c.ndjson 2"})
	if e := first[0]; e.ID != "changes/a.md@f97c5d29941bfb1b2fdab0874906ab82" || e.Source != "/s3/changes" || e.Key != "a.md" || e.Time.IsZero() || e.ContentType != "text/markdown" {
		t.Errorf("%+v", e)
	}
	check(t, short(r.all()), nil)
	b.put("a.md", "one") // the same again
	check(t, short(r.all()), nil)
	b.put("a.md", "eins")
	b.remove("b.md")
	b.put("c.ndjson", "1\n2\n3\n")
	second := r.all()
	check(t, short(second), []string{"object a.md eins", "line c.ndjson 1", "line c.ndjson 2", "line c.ndjson 3", "deleted b.md "})
	if first[0].ID == second[0].ID || first[0].Key != second[0].Key || first[2].ID == second[1].ID {
		t.Error("versions are not told apart", first[0].ID, second[0].ID, first[2].ID, second[1].ID)
	}
	if e := second[4]; e.Data != nil || e.Key != "b.md" || e.Type != "millrace.s3.deleted" {
		t.Errorf("%+v", e)
	}
	b.put("b.md", "two")
	b.remove("c.ndjson")
	check(t, short(r.all()), []string{"object b.md two", "deleted c.ndjson "})
	check(t, short(r.all()), nil)
}

// lateKeys come after keys that sort behind them were read, within one second.
func lateKeys(b *bucket) {
	t := b.t
	r := b.reader(map[string]any{"follow": true})
	b.put("b/9.md", "first")
	var got []string
	for len(got) < 1 {
		got = append(got, one(t, r)...)
	}
	b.put("a/0.md", "earlier")
	b.put("b/9.txt", "later")
	b.put("b/8.md", "between")
	for len(got) < 4 {
		got = append(got, one(t, r)...)
	}
	slices.Sort(got[1:])
	check(t, got, []string{"object b/9.md first", "line b/9.txt later", "object a/0.md earlier", "object b/8.md between"})
}

func one(t *testing.T, r *reader) []string {
	t.Helper()
	events, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	return short(events)
}

func strangeKeys(b *bucket) {
	t := b.t
	keys := []string{
		"dir x/a+b=ä.json", "a&b?c#d%20e;f", "日本/テスト.md", "q'uo\"te.md", "plus+ +", "per%cent", "tilde~!*()$@,:", "a-b/c", "a.b/c", "a/b/c", "a b", "A", "z/../z",
	}
	keys = keys[:len(keys)-1] // a path that goes up is no key here
	var want []string
	for _, k := range keys {
		b.put(k, `"`+k+`"`)
		want = append(want, k)
	}
	r := b.reader(map[string]any{"format": "document"})
	var got []string
	for _, e := range r.all() {
		if string(e.Data) != `"`+e.Key+`"` || e.Subject != e.Key || !strings.HasPrefix(e.ID, "strange-keys/"+e.Key+"@") {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Key)
	}
	slices.Sort(want)
	slices.Sort(got)
	check(t, got, want)
	check(t, short(r.all()), nil)
	for _, k := range keys {
		b.remove(k)
	}
	if gone := r.all(); len(gone) != len(keys) {
		t.Errorf("deletions: %v", short(gone))
	}
}

func contentTypes(b *bucket) {
	t := b.t
	b.putAs("a", "{}", "application/vnd.own+json")
	b.putAs("b.md", "# b", "application/octet-stream")
	b.putAs("c.json", "{", "application/json")
	b.putAs("d.pdf", "x", "")
	b.putAs("e.html.gz", compress(t, "<p>e"), "application/gzip")
	b.putAs("f", "\x00\x01", "")
	var got []string
	for _, e := range b.reader(map[string]any{"format": "document"}).all() {
		got = append(got, e.Key+" "+e.ContentType)
	}
	check(t, got, []string{
		"a application/vnd.own+json", "b.md text/markdown", "c.json text/plain; charset=utf-8", "d.pdf application/pdf", "e.html.gz text/html", "f application/octet-stream",
	})
}

func badInput(b *bucket) {
	t := b.t
	b.put("a.ndjson", "1\n{\n3\n"+strings.Repeat("x", 5000)+"\n5\n"+strings.Repeat("y", 200_000))
	b.put("b.md", strings.Repeat("z", 2000))
	b.put("c.md", "fine")
	b.put("d.ndjson", `{"specversion":"1.0","id":"own","source":"/own","type":"own","data":1}`+"\n"+`{"id":{"n":7}}`)
	r := b.reader(map[string]any{"max.line.bytes": 100, "max.document.bytes": 1000, "key": "id.n"})
	events := r.all()
	check(t, short(events), []string{"line a.ndjson 1", "line a.ndjson 3", "line a.ndjson 5", "object c.md fine", "own  1", `line d.ndjson {"id":{"n":7}}`})
	if e := events[4]; e.ID != "own" || e.Source != "/own" {
		t.Errorf("%+v", e)
	}
	if e := events[5]; e.Key != "7" || !strings.HasSuffix(e.ID, ":71") {
		t.Errorf("%+v", e)
	}
	var failed []string
	for _, f := range r.failed {
		failed = append(failed, fmt.Sprintf("%s %t: %v", f.Origin, len(f.Raw) > 0 && len(f.Raw) <= 64<<10, f.Err))
	}
	check(t, failed, []string{
		"s3://bad-input/a.ndjson:2 true: " + event.CheckJSON([]byte("{")).Error(),
		"s3://bad-input/a.ndjson:4 true: longer than max.line.bytes (100)",
		"s3://bad-input/a.ndjson:6 true: longer than max.line.bytes (100)",
		"s3://bad-input/b.md false: larger than max.document.bytes (1000)",
	})
	if again := r.all(); len(again) != 0 || len(r.failed) != 4 {
		t.Error("again:", short(again), r.failed)
	}
}

func check(t *testing.T, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
