package s3_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/connectorstest"
	"millrace/connectors/s3"
)

// build makes the S3 server of module s3test: versitygw, a real one.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "s3test")
	cmd := exec.CommandContext(t.Context(), "go", "-C", "s3test", "build", "-o", bin, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the S3 server does not build, so nothing of the s3 source can be tested: %v\n%s", err, out)
	}
	return bin
}

// server is a running S3 server.
type server struct {
	bin, dir, addr string
	cmd            *exec.Cmd
	log            bytes.Buffer
}

func serve(t *testing.T, bin string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{bin: bin, dir: t.TempDir(), addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	t.Cleanup(func() { s.kill(t) })
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(s.bin, "-dir", s.dir, "-addr", s.addr)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		resp, err := http.Get("http://" + s.addr + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			s.kill(t)
			t.Fatalf("the S3 server does not answer: %v\n%s", err, s.log.String())
		}
		pause(t.Context(), 20*time.Millisecond)
	}
}

// kill ends the server as a crash does.
func (s *server) kill(t *testing.T) {
	t.Helper()
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = s.cmd.Wait() // says that it was killed
	s.cmd = nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// bucket is one bucket of a server, named after the test.
type bucket struct {
	t      *testing.T
	client *minio.Client
	addr   string
	name   string
}

func (s *server) bucket(t *testing.T, name string) *bucket {
	t.Helper()
	// A connection for each request: after an empty object versitygw takes the end
	// of its chunked body for a new request, and its 400 would answer the next one.
	transport, err := minio.DefaultTransport(false)
	if err != nil {
		t.Fatal(err)
	}
	transport.DisableKeepAlives = true
	client, err := minio.New(s.addr, &minio.Options{
		Creds: credentials.NewStaticV4("access", "secret", ""), Region: "us-east-1", Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.MakeBucket(t.Context(), name, minio.MakeBucketOptions{}); err != nil {
		t.Fatal(err)
	}
	return &bucket{t, client, s.addr, name}
}

func (b *bucket) put(key, content string) {
	b.t.Helper()
	b.putAs(key, content, "")
}

func (b *bucket) putAs(key, content, contentType string) {
	b.t.Helper()
	_, err := b.client.PutObject(b.t.Context(), b.name, key, strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{ContentType: contentType})
	if err != nil {
		b.t.Fatalf("put %s: %v", key, err)
	}
}

func (b *bucket) remove(key string) {
	b.t.Helper()
	if err := b.client.RemoveObject(b.t.Context(), b.name, key, minio.RemoveObjectOptions{}); err != nil {
		b.t.Fatalf("remove %s: %v", key, err)
	}
}

// config is a source's config that reads the bucket once, with more keys.
func (b *bucket) config(more map[string]any) map[string]any {
	c := map[string]any{
		"s3.bucket.name": b.name, "store.url": "http://" + b.addr, "aws.access.key.id": "access", "aws.secret.access.key": "secret",
		"topic": "objects", "follow": false, "poll.interval": "20ms",
	}
	maps.Copy(c, more)
	return c
}

// reader is a source with what is stored of it, as a bus would keep it.
type reader struct {
	t         *testing.T
	config    map[string]any
	positions map[string]json.RawMessage
	state     *connectorstest.State // stored
	working   *connectorstest.State // of the open source
	source    connectors.Source
	failed    []connectors.BadInput
	answers   int
}

func (b *bucket) reader(more map[string]any) *reader {
	r := &reader{t: b.t, config: b.config(more), positions: map[string]json.RawMessage{}, state: connectorstest.NewState()}
	b.t.Cleanup(r.close)
	return r
}

func (r *reader) close() {
	if r.source != nil {
		if err := r.source.Close(); err != nil {
			r.t.Error(err)
		}
		r.source = nil
	}
}

// read returns one answer, opening the source at what is stored if it is closed.
// After an error it is closed.
func (r *reader) read() ([]event.Event, error) {
	r.t.Helper()
	if r.source == nil {
		r.working = r.state.Clone()
		s, err := s3.Plugin().Source.Open(r.t.Context(), r.config, connectors.Env{Positions: maps.Clone(r.positions), State: r.working, Now: time.Now})
		if err != nil {
			r.t.Fatalf("open: %v", err)
		}
		r.source = s
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	p, err := r.source.Read(ctx)
	if err != nil {
		r.close()
		return nil, err
	}
	r.answers++
	r.failed = append(r.failed, p.Failed...)
	maps.Copy(r.positions, p.Positions)
	r.state = r.working.Clone()
	events := make([]event.Event, len(p.Events))
	for i := range p.Events {
		events[i] = p.Events[i].Event
		if err := events[i].Validate(); err != nil {
			r.t.Errorf("event %+v: %v", events[i], err)
		}
	}
	return events, nil
}

// all reads to io.EOF.
func (r *reader) all() []event.Event {
	r.t.Helper()
	var events []event.Event
	for {
		more, err := r.read()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			r.t.Fatalf("read: %v", err)
		}
		events = append(events, more...)
	}
}

// short tells events by what matters: type, key or id, data.
func short(events []event.Event) []string {
	var out []string
	for i := range events {
		e := &events[i]
		out = append(out, strings.TrimPrefix(e.Type, "millrace.s3.")+" "+e.Subject+" "+string(e.Data))
	}
	return out
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
