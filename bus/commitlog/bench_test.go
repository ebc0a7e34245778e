package commitlog_test

import (
	"testing"

	"millrace/bus/commitlog"
	"millrace/bus/vfs"
)

func openBench(b *testing.B, o commitlog.Options) *commitlog.Log {
	b.Helper()
	l, err := commitlog.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}

// trim keeps the benchmark's disk space small.
func trim(b *testing.B, l *commitlog.Log) {
	b.Helper()
	if segs := l.Segments(); len(segs) > 4 {
		if err := l.Remove(segs[0].Base); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkAppend(b *testing.B, size, every int, o commitlog.Options) {
	b.Helper()
	l := openBench(b, o)
	b.SetBytes(int64(size))
	b.ReportAllocs()
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(i)
	}
	i := 0
	for b.Loop() {
		if _, err := l.Append(1, payload); err != nil {
			b.Fatal(err)
		}
		if i++; i%every == 0 {
			if err := l.Sync(); err != nil {
				b.Fatal(err)
			}
			trim(b, l)
		}
	}
	s := l.Stats()
	b.ReportMetric(float64(s.SyncTime.Nanoseconds())/float64(max(1, s.Appends)), "sync-ns/op")
}

// noSync is a disk whose Sync costs nothing, to see what the rest does.
type noSync struct{ vfs.FS }

type noSyncFile struct{ vfs.File }

func (f noSync) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	return noSyncFile{file}, err
}

func (noSyncFile) Sync() error { return nil }

func BenchmarkAppend1KSync500(b *testing.B) { benchmarkAppend(b, 1024, 500, commitlog.Options{}) }
func BenchmarkAppend1KSync1(b *testing.B)   { benchmarkAppend(b, 1024, 1, commitlog.Options{}) }
func BenchmarkAppend100KSync5(b *testing.B) { benchmarkAppend(b, 100<<10, 5, commitlog.Options{}) }
func BenchmarkAppend1KUnsynced(b *testing.B) {
	benchmarkAppend(b, 1024, 500, commitlog.Options{FS: noSync{vfs.OS{}}})
}

func fill(b *testing.B, l *commitlog.Log, n, size int) []commitlog.Position {
	b.Helper()
	positions := make([]commitlog.Position, 0, n)
	for range n {
		pos, err := l.Append(1, make([]byte, size))
		if err != nil {
			b.Fatal(err)
		}
		positions = append(positions, pos)
	}
	if err := l.Sync(); err != nil {
		b.Fatal(err)
	}
	return positions
}

func BenchmarkScan1K(b *testing.B) {
	l := openBench(b, commitlog.Options{})
	const n = 50_000
	fill(b, l, n, 1024)
	b.SetBytes(1024)
	b.ReportAllocs()
	for i := 0; i < b.N; {
		for _, err := range l.Scan(0) {
			if err != nil {
				b.Fatal(err)
			}
			if i++; i == b.N {
				break
			}
		}
	}
}

func benchmarkRead(b *testing.B, hot int64) {
	b.Helper()
	l := openBench(b, commitlog.Options{HotBytes: hot})
	positions := fill(b, l, 20_000, 1024)
	b.SetBytes(1024)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := l.Read(positions[i%len(positions)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkReadHot1K(b *testing.B)  { benchmarkRead(b, 64<<20) }
func BenchmarkReadCold1K(b *testing.B) { benchmarkRead(b, -1) }
