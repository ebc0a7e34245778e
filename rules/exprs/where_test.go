package exprs

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestWhereIsACondition: what can never be true or false is refused when it is
// written, what only an event can tell is not.
func TestWhereIsACondition(t *testing.T) {
	t.Parallel()
	for _, src := range []string{`1 + 1`, `"text"`, `[1, 2]`, `len(data.items)`} {
		raw, err := json.Marshal(src)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := CompileWhere(raw, Options{}); err == nil || !strings.Contains(err.Error(), "condition") {
			t.Errorf("%s: %v", src, err)
		}
	}
	for _, src := range []string{`data.ok`, `data.a > 1`, `true`, `data.a == nil || ext.x == "y"`, `data.items[0].ok`, `any(data.items, .n > 1)`, `data.a > 1 ? data.ok : false`} {
		raw, err := json.Marshal(src)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := CompileWhere(raw, Options{}); err != nil {
			t.Errorf("%s: %v", src, err)
		}
	}
}
