package spec_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"millrace/schemas/spec"
)

func TestSecretIsNeverShown(t *testing.T) {
	t.Parallel()
	type holder struct{ S spec.Secret }
	h := holder{"hunter2"}
	j, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", h.S)
	for _, s := range []string{fmt.Sprint(h), fmt.Sprintf("%v %+v %#v %s %q %x", h, h, h, h.S, h.S, h.S), string(j), log.String()} {
		if strings.Contains(s, "hunter2") || strings.Contains(s, "68756e") || !strings.Contains(s, spec.Hidden) {
			t.Error(s)
		}
	}
	if h.S.Reveal() != "hunter2" {
		t.Error("Reveal")
	}
}

func TestResolve(t *testing.T) {
	t.Setenv("SPEC_TEST_NAME", `o"neil`)
	dir := t.TempDir()
	write := func(name, content string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	whole, props, js := write("whole", " s3cret\n"), write("x.properties", "# c\nuser = joe\npass: a=b\n"), write("x.json", `{"n":12,"s":"t"}`)
	got, err := spec.Resolve(map[string]any{
		"a": "x ${env:SPEC_TEST_NAME} y ${file:" + whole + "}", "b": []any{"${file:" + props + ":pass}", 3},
		"c": map[string]any{"d": "${file:" + js + ":n}"}, "e": `{"k":"${env:SPEC_TEST_NAME}"}`, "f": "${topic} ${other:x}",
	})
	want := map[string]any{
		"a": `x o"neil y s3cret`, "b": []any{"a=b", 3}, "c": map[string]any{"d": "12"}, "e": `{"k":"o\"neil"}`, "f": "${topic} ${other:x}",
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	_, err = spec.Resolve(map[string]any{"a": map[string]any{"p": "${env:SPEC_TEST_MISSING}"}, "b": "${file:" + props + ":nokey}", "c": "${file:/does/not/exist}"})
	wantErr := "a.p: ${env:SPEC_TEST_MISSING}: the environment variable is not set; b: ${file:" + props + `:nokey}: the file has no key "nokey"; ` +
		"c: ${file:/does/not/exist}: no such file or directory"
	if err == nil || err.Error() != wantErr {
		t.Errorf("%v\nwant %s", err, wantErr)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	got := spec.Redact(map[string]any{
		"database.hostname": "h", "database.password": "p", "headers": map[string]any{"a": "b", "r": "${env:R}"}, "headers.x": "y",
		"transforms": `[{"set":{"a":"1"}}]`, "where": `{"embed":{"apiKey":"k","url":"u","n":1}}`, "api.token": "t", "password": "x${env:P}",
	}, spec.Of[all]())
	want := map[string]any{
		"database.hostname": "h", "database.password": "[hidden]", "headers": map[string]any{"a": "[hidden]", "r": "${env:R}"}, "headers.x": "[hidden]",
		"transforms": `[{"set":{"a":"1"}}]`, "where": `{"embed":{"apiKey":"[hidden]","n":1,"url":"u"}}`, "api.token": "[hidden]", "password": "[hidden]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := spec.Redact(map[string]any{"database.password": "${file:/p}"}, spec.Of[all]()); got["database.password"] != "${file:/p}" {
		t.Error(got)
	}
}
