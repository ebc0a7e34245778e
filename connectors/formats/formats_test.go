package formats_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"millrace/bus/event"
	"millrace/connectors/formats"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"a.ndjson": {formats.NDJSON, "text/plain; charset=utf-8"}, "A.JSONL": {formats.NDJSON, "text/plain; charset=utf-8"}, "d/a.tsv": {formats.CSV, "text/tab-separated-values"},
		"a.log": {formats.Text, "text/plain; charset=utf-8"}, "a.md": {formats.Document, "text/markdown"}, "a": {formats.Document, "text/plain; charset=utf-8"},
		"a.json": {formats.Document, "text/plain; charset=utf-8"}, // it claims to be JSON
	} {
		if format, ct := formats.ByName(name), formats.ContentType(name, []byte("plain")); format != want[0] || ct != want[1] {
			t.Error(name, format, ct)
		}
	}
	if ct := formats.ContentType("a.json", []byte(`{"a":1}`)); ct != "application/json" {
		t.Error(ct)
	}
	for configured, want := range map[string]byte{"": ',', "tab": '\t', ";": ';'} {
		if got := formats.Delimiter(configured, "a.csv"); got != want || !formats.IsDelimiter(configured) {
			t.Errorf("%q: %q", configured, got)
		}
	}
	if formats.Delimiter("", "a.TSV") != '\t' || formats.IsDelimiter("||") || formats.IsDelimiter("\n") || formats.IsDelimiter("é") {
		t.Error("delimiters")
	}
}

// cut reads all of b as records, pieces bytes at a time.
func cut(r formats.Records, b []byte, piece int) (data []string, lines int64, errs []error) {
	for at, seen := 0, 0; at < len(b); {
		n := r.Split(b[at:seen], seen == len(b))
		if n == 0 {
			seen = min(seen+piece, len(b))
			continue
		}
		var e event.Event
		ok, err := r.Read(b[at:at+n], int64(at), &e)
		if err != nil {
			errs = append(errs, err)
		} else if ok {
			data = append(data, string(e.Data))
		}
		lines += r.Count(b[at : at+n])
		at += n
	}
	return data, lines, errs
}

// TestCSVIsRead writes any table as CSV, reads it in pieces of any size, and goes
// on anywhere with the header alone.
func TestCSVIsRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.StringOfN(rapid.SampledFrom([]rune("ab,;\"\n\r é")), 0, 6, -1)
		table := rapid.SliceOfN(rapid.SliceOfN(field, 2, 2), 1, 5).Draw(t, "table")
		lines := []string{"x,y\n"}
		var want []string
		for _, row := range table {
			lines = append(lines, rowOf(row))
			want = append(want, object(t, row))
		}
		text := strings.Join(lines, "")
		options := formats.Options{Format: formats.CSV, Delimiter: ',', Header: true, Limit: 1 << 10}
		got, n, errs := cut(formats.New(options), []byte(text), rapid.IntRange(1, 20).Draw(t, "piece"))
		if len(errs) > 0 || fmt.Sprint(got) != fmt.Sprint(want) || n != int64(strings.Count(text, "\n")) {
			t.Fatalf("%q: %q, not %q; %d lines, %v", text, got, want, n, errs)
		}
		resumed := formats.New(options)
		if err := resumed.Resume(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }); err != nil {
			t.Fatal(err)
		}
		var e event.Event
		last := text[len(text)-len(rowOf(table[len(table)-1])):]
		if ok, err := resumed.Read([]byte(last), 99, &e); !ok || err != nil || string(e.Data) != want[len(want)-1] {
			t.Fatalf("resumed at %q: %s %v", last, e.Data, err)
		}
	})
}

func rowOf(row []string) string {
	return `"` + strings.ReplaceAll(row[0], `"`, `""`) + `","` + strings.ReplaceAll(row[1], `"`, `""`) + "\"\n"
}

func object(t *rapid.T, row []string) string {
	t.Helper()
	x, err := json.Marshal(row[0])
	y, err2 := json.Marshal(row[1])
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return `{"x":` + string(x) + `,"y":` + string(y) + `}`
}

func TestRecords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		options formats.Options
		in      string
		want    string
		errs    int
	}{
		{formats.Options{Format: formats.NDJSON}, "\ufeff{\"a\":1}\r\n\n{\n2", `[{"a":1} 2]`, 1},
		{formats.Options{Format: formats.Text}, "\ufeffa\r\n\nb", `[a b]`, 0},
		{formats.Options{Format: formats.CSV, Delimiter: ';', Limit: 100}, "1;2\n3\n4;5", `[{"column_1":"1","column_2":"2"} {"column_1":"4","column_2":"5"}]`, 1},
		{formats.Options{Format: formats.CSV, Delimiter: ',', Header: true, Limit: 100}, "a,a,\n1,2,3\n", `[{"a":"1","a_2":"2","column_3":"3"}]`, 0},
		{formats.Options{Format: formats.CSV, Delimiter: ',', Header: true, Limit: 100}, "a\n\"x\ny\n", `[{"a":"y"}]`, 1}, // an open quote costs its line
	} {
		got, _, errs := cut(formats.New(tc.options), []byte(tc.in), 3)
		if fmt.Sprint(got) != tc.want || len(errs) != tc.errs {
			t.Errorf("%q: %v, %v", tc.in, got, errs)
		}
	}
}

func TestCloudEvents(t *testing.T) {
	t.Parallel()
	const line = `{"specversion":"1.0","id":"i","source":"/s","type":"t","data":{"a":1}}`
	for _, as := range []bool{false, true} {
		var e event.Event
		ok, err := formats.New(formats.Options{Format: formats.NDJSON, CloudEvents: as}).Read([]byte(line), 0, &e)
		if !ok || err != nil || (e.ID == "i") != as || as && string(e.Data) != `{"a":1}` {
			t.Errorf("%t: %+v, %v", as, e, err)
		}
	}
	if key := formats.Key([]byte(`{"a":{"b":7}}`), "a.b"); key != "7" {
		t.Error(key)
	}
	if formats.Key([]byte(`{"a":null}`), "a") != "" || formats.Key([]byte(`{}`), "") != "" {
		t.Error("keys that are not there")
	}
}
