package rest

import (
	"fmt"

	"millrace/schemas/spec"
)

// Suggest returns `: did you mean "…"?` with the known name nearest to name, or
// nothing when none is near.
func Suggest(name string, known []string) string {
	if n := spec.Nearest(name, known); n != "" {
		return fmt.Sprintf(": did you mean %q?", n)
	}
	return ""
}
