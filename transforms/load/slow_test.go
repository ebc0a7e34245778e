package load

import (
	"strings"
	"testing"
	"time"
)

// TestHostileTime loads what makes parsers slow.
func TestHostileTime(t *testing.T) {
	t.Parallel()
	const n = 300_000
	for name, in := range map[string]Input{
		"brackets": {MediaType: "text/markdown", Data: []byte(strings.Repeat("[", n))},
		"stars":    {MediaType: "text/markdown", Data: []byte(strings.Repeat("*a _b ", n/6))},
		"p":        {MediaType: "text/html", Data: []byte(strings.Repeat("<p>", n/3))},
		"em":       {MediaType: "text/html", Data: []byte(strings.Repeat("<b>x</b>*_`", n/11))},
		"text":     {MediaType: "text/html", Data: []byte(strings.Repeat("*", n))},
		"table":    {MediaType: "text/html", Data: []byte("<table>" + strings.Repeat("<tr><td>1<td>2", n/14))},
		"list":     {MediaType: "text/html", Data: []byte(strings.Repeat("<ul><li>x", 12) + strings.Repeat("<li>y", n/5))},
		"line":     {MediaType: "text/html", Data: []byte(strings.Repeat("<br>", n/4))},
		"quotes":   {MediaType: "text/csv", Data: []byte(strings.Repeat("\"", n))},
	} {
		begin := time.Now()
		d, err := Load(in, Options{})
		took := time.Since(begin)
		t.Logf("%s: %s, %d bytes, %v", name, took, len(d.Text), err)
		if took > time.Minute {
			t.Errorf("%s took %s", name, took)
		}
	}
}
