package main

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// The files of deploy/ are tried as far as that goes without Docker and without
// being systemd: what they build and run is built and run here.

// TestDockerfile builds the binary as the Dockerfile does and runs it with the
// image's default command.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := readDeploy(t, "Dockerfile")
	build := regexp.MustCompile(`(?m)^RUN (.*go build -o) /out/millrace (\S+)$`).FindStringSubmatch(text)
	if build == nil {
		t.Fatal("the Dockerfile has no line that builds /out/millrace")
	}
	binary := filepath.Join(t.TempDir(), "millrace")
	cmd := exec.Command("sh", "-c", build[1]+" "+binary+" "+build[2])
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build[0], err, out)
	}
	static(t, binary)
	if out, err := exec.Command(binary, "version").Output(); err != nil || !strings.HasPrefix(string(out), "millrace ") {
		t.Errorf("version: %v, %q", err, out)
	}

	var entry, args []string
	for name, into := range map[string]*[]string{"ENTRYPOINT": &entry, "CMD": &args} {
		line := regexp.MustCompile(`(?m)^` + name + ` (\[.*\])$`).FindStringSubmatch(text)
		if line == nil {
			t.Fatalf("the Dockerfile has no %s", name)
		}
		if err := json.Unmarshal([]byte(line[1]), into); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(entry, []string{"/millrace"}) {
		t.Errorf("ENTRYPOINT %v", entry)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "token"), "t0ken\n")
	serveAndStop(t, binary, replace(args, map[string]string{
		"/data": filepath.Join(dir, "data"), "/run/secrets/token": filepath.Join(dir, "token"),
		"0.0.0.0:8080": "127.0.0.1:0", "0.0.0.0:8081": "127.0.0.1:0",
	}))
}

// TestUnit runs the systemd unit's ExecStart with the config file beside it.
func TestUnit(t *testing.T) {
	t.Parallel()
	text := readDeploy(t, "millrace.service")
	start := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(text)
	if start == nil {
		t.Fatal("the unit has no ExecStart")
	}
	args := strings.Fields(start[1])
	if args[0] != "/usr/local/bin/millrace" {
		t.Errorf("ExecStart runs %s", args[0])
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "millrace.yaml")
	writeFile(t, config, strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:0", "127.0.0.1:8081", "127.0.0.1:0").Replace(readDeploy(t, "millrace.yaml")))
	serveAndStop(t, "millrace", replace(args[1:], map[string]string{
		"/etc/millrace/millrace.yaml": config, "/var/lib/millrace": filepath.Join(dir, "data"),
	}))

	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not here: the unit's own keys are not checked")
		return
	}
	binary, err := exec.LookPath("millrace")
	if err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(dir, "millrace.service")
	writeFile(t, unit, strings.ReplaceAll(text, "/usr/local/bin/millrace", binary))
	if out, err := exec.Command(verify, "verify", "--man=no", unit).CombinedOutput(); err != nil || strings.Contains(string(out), "millrace.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	t.Log("counterpart: systemd-analyze verify")
}

// TestCompose checks that the commands of the compose file exist with their flags.
func TestCompose(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Command     []string
			Healthcheck struct{ Test []string }
		}
	}
	if err := yaml.Load([]byte(readDeploy(t, "compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, s := range compose.Services {
		commands := [][]string{s.Command}
		if test := s.Healthcheck.Test; len(test) > 2 {
			if test[0] != "CMD" || test[1] != "/millrace" {
				t.Errorf("%s: the health check runs %v", name, test)
			}
			commands = append(commands, test[2:])
		}
		for _, args := range commands {
			if len(args) == 0 {
				continue
			}
			checked++
			cmd, rest, err := newRoot().Find(args)
			if err != nil || cmd.Name() == "millrace" {
				t.Errorf("%s: %v: %v", name, args, err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v: %v", name, args, err)
			}
		}
	}
	if checked < 2 {
		t.Errorf("only %d commands found", checked)
	}
}

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// replace changes those arguments that are in by.
func replace(args []string, by map[string]string) []string {
	args = slices.Clone(args)
	for i, a := range args {
		if b, ok := by[a]; ok {
			args[i] = b
		}
	}
	return args
}

// serveAndStop runs a node, asks whether it is ready and stops it.
func serveAndStop(t *testing.T, binary string, args []string) {
	t.Helper()
	n, err := launchCommand(t.TempDir(), binary, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer n.kill()
	n.must(t, "GET", "/readyz", nil, nil)
	if err := n.stop(); err != nil {
		t.Errorf("%v ended with %v", args, err)
	}
}

// static fails the test when a binary wants a loader or a library.
func static(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libs, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || len(libs) > 0 {
			t.Errorf("%s is not static: it wants %v", binary, libs)
		}
	}
}
