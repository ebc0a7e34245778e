package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes "millrace" a command on the PATH of the tests: this very test
// binary, run as the real one.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"millrace": main})
}
