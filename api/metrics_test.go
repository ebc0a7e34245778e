package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"millrace/workers"
)

// TestMetrics: the numbers of Stats values and tasks come out under their names.
func TestMetrics(t *testing.T) {
	t.Parallel()
	type disk struct{ SyncedBytes int64 }
	type stats struct {
		Disk      *disk
		LastSync  time.Duration
		ByTopic   map[string]uint64
		HTTPCalls float64
		Name      string
	}
	w := newWorld(t, Options{
		Stats: map[string]func() any{"bus": func() any {
			return stats{Disk: &disk{7}, LastSync: 1500 * time.Millisecond, ByTopic: map[string]uint64{"orders": 3}, HTTPCalls: 2, Name: "x"}
		}},
		Tasks: func() []workers.TaskStats {
			return []workers.TaskStats{{Kind: "sink", Name: "out", Task: 1, State: "RUNNING", Events: 5, Dropped: map[string]int64{"where": 2}, Busy: time.Second}}
		},
	})
	w.work()
	w.must(http.StatusCreated, http.MethodPut, "/topics/orders", "")
	w.must(http.StatusCreated, http.MethodPost, "/connectors", `{"name":"out","config":{"connector.class":"blackhole-sink","topics":"orders"}}`)
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(w.must(http.StatusOK, http.MethodGet, "/groups", ""), "connect-out"); {
		if time.Now().After(deadline) {
			t.Fatal("the sink's group did not come up")
		}
	}
	got := w.must(http.StatusOK, http.MethodGet, "/metrics", "")
	for _, want := range []string{
		"millrace_bus_disk_synced_bytes 7",
		"millrace_bus_last_sync_seconds 1.5",
		`millrace_bus_by_topic{name="orders"} 3`,
		"millrace_bus_http_calls 2",
		`millrace_task_events_total{kind="sink",name="out",task="1"} 5`,
		`millrace_task_dropped_total{kind="sink",name="out",reason="where",task="1"} 2`,
		`millrace_task_busy_seconds_total{kind="sink",name="out",task="1"} 1`,
		`millrace_task_state{kind="sink",name="out",state="RUNNING",task="1"} 1`,
		`millrace_group_lag{group="connect-out"} 0`,
		`millrace_http_requests_total{method="PUT",route="/topics/:topic",status="201"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}
