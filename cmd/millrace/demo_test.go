package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"millrace/cmd/millrace/demo"
)

// TestDemo runs the demo against the built command, with the real MariaDB that
// the tests install.
func TestDemo(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("millrace")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = demo.Run(t.Context(), demo.Options{Binary: binary, Root: "../..", Out: &out, JSON: true})
	var report demo.Report
	if jerr := json.Unmarshal(out.Bytes(), &report); jerr != nil {
		t.Fatalf("%v: %v\n%s", err, jerr, out.Bytes())
	}
	for _, c := range report.Checks {
		if !c.OK {
			t.Errorf("%s: %s", c.Part, c.What)
		}
	}
	if len(report.Skipped) > 0 {
		t.Errorf("skipped %v", report.Skipped)
	}
	if err != nil {
		t.Error(err)
	}
	t.Logf("counterpart: MariaDB, %d checks in %.1f s", len(report.Checks), report.Seconds)
}
