package blackhole_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/bus/event"
	"millrace/connectors"
	"millrace/connectors/blackhole"
	"millrace/connectors/connectorstest"
)

func TestConformance(t *testing.T) {
	connectorstest.Sink(t, connectorstest.SinkCase{
		Plugin: blackhole.Plugin(),
		Target: func(*testing.T) (map[string]any, func(*testing.T) []string) {
			return map[string]any{"fail.every": 1000003, "fail.permanent": true}, nil
		},
		Bad: func(r *event.Record) { r.Offset = 1000002 },
	})
}

func open(t *testing.T, config map[string]any) connectors.Sink {
	t.Helper()
	s, err := blackhole.Plugin().Sink.Open(t.Context(), config, connectors.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFailEvery(t *testing.T) {
	t.Parallel()
	recs := make([]event.Record, 7)
	for i := range recs {
		recs[i].Offset = int64(i)
	}
	for _, permanent := range []bool{false, true} {
		s := open(t, map[string]any{"fail.every": 3, "fail.permanent": permanent})
		for try := range 2 {
			err := s.Write(t.Context(), recs)
			if try == 1 && !permanent {
				if err != nil {
					t.Error(err)
				}
				continue
			}
			be, ok := errors.AsType[*connectors.BatchError](err)
			if !ok || !slices.Equal(slices.Sorted(maps.Keys(be.Failed)), []int{2, 5}) || connectors.IsPermanent(be.Failed[2]) != permanent {
				t.Error(permanent, try, err)
			}
		}
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, map[string]any{"delay": "3s"})
		begin := time.Now()
		if err := s.Write(t.Context(), nil); err != nil || time.Since(begin) != 3*time.Second {
			t.Error(err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Write(ctx, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 4*time.Second {
			t.Error(err, time.Since(begin))
		}
	})
}
