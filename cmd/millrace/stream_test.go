package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadStream(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	for _, c := range []struct {
		name, in string
		want     []string
		last     string
		err      error
	}{
		{"two events", ": hello\n\nid: a\ndata: 1\n\nid: b\ndata: 2\n\n", []string{"1", "2"}, "b", io.EOF},
		{"lines of data", "id: a\r\ndata: {\r\ndata: }\r\n\r\n", []string{"{\n}"}, "a", io.EOF},
		{"cut off before its end", "id: a\ndata: 1\n\nid: b\ndata: 2\n", []string{"1"}, "a", io.EOF},
		{"not taken", "id: a\ndata: 1\n\nid: b\ndata: stop\n\n", []string{"1", "stop"}, "a", stop},
		{"ended by the node", "id: a\ndata: 1\n\nevent: end\ndata: the topic was deleted\n\n", []string{"1"}, "a", errEnded},
		{"heartbeats", ": heartbeat\n\n: heartbeat\n\n", nil, "", io.EOF},
	} {
		var got []string
		last, err := readStream(strings.NewReader(c.in), func(b []byte) error {
			got = append(got, string(b))
			if string(b) == "stop" {
				return stop
			}
			return nil
		})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
		if last != c.last || !errors.Is(err, c.err) {
			t.Errorf("%s: last %q, error %v; want %q, %v", c.name, last, err, c.last, c.err)
		}
	}
}
