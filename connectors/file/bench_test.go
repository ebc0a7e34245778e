//go:build unix

package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"millrace/connectors"
)

// BenchmarkSource reads 1 KB NDJSON lines; ns/op is per line.
func BenchmarkSource(b *testing.B) {
	path := filepath.Join(b.TempDir(), "in.ndjson")
	var buf bytes.Buffer
	const lines = 20000
	for i := range lines {
		fmt.Fprintf(&buf, `{"id":%d,"type":"order.created","customer":{"name":"Customer %d","city":"Zürich","vip":%t},"amount":%d.25,"items":[`, i, i%97, i%2 == 0, i%1000)
		for j := range 9 {
			fmt.Fprintf(&buf, `{"sku":"sku-%d-%d","quantity":%d,"price":%d.5,"note":"%s"},`, i, j, j+1, j*10, strings.Repeat("x", 30))
		}
		buf.WriteString("null]}\n")
	}
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(buf.Len() / lines))
	b.ReportAllocs()
	before := cpu(b)
	b.ResetTimer()
	for n := 0; n < b.N; {
		s, err := openSource(b.Context(), sourceConfig{Path: path, Topic: "t", CloudEvents: "auto", MaxLine: 16 << 20}, connectors.Env{})
		if err != nil {
			b.Fatal(err)
		}
		for n < b.N {
			p, err := s.Read(b.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			n += len(p.Events)
		}
		_ = s.Close()
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpu is the processor time this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
