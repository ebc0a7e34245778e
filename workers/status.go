package workers

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"millrace/bus"
	"millrace/bus/event"
)

// Further states of a connector or task, as Kafka Connect names them.
const (
	StateFailed     = "FAILED"
	StateUnassigned = "UNASSIGNED"
)

// StatusKey is the key of a connector's status record; a rule's name is given
// as RuleGroup(rule).
func StatusKey(name string) string { return "status-connector-" + name }

// TaskStatusKey is the key of a task's status record.
func TaskStatusKey(name string, id int) string {
	return "status-task-" + name + "-" + strconv.Itoa(id)
}

// statusWriter brings states into bus.TopicStatus, together and at most once in
// statusEvery, sooner when a state changes.
type statusWriter struct {
	client bus.Client
	log    *slog.Logger
	urgent chan struct{} // holds one token

	mu    sync.Mutex
	dirty map[string][]byte // key → value, nil deletes
}

const statusEvery = time.Second

func newStatusWriter(client bus.Client, log *slog.Logger) *statusWriter {
	return &statusWriter{client: client, log: log, urgent: make(chan struct{}, 1), dirty: map[string][]byte{}}
}

// set notes a status; value nil deletes the record. now asks for it to be stored
// at once.
func (w *statusWriter) set(key string, value any, now bool) {
	var raw []byte
	if value != nil {
		raw, _ = json.Marshal(value) // plain structs of strings and numbers
	}
	w.mu.Lock()
	w.dirty[key] = raw
	w.mu.Unlock()
	if now {
		select {
		case w.urgent <- struct{}{}:
		default:
		}
	}
}

// run stores what was set until ctx ends, then once more.
func (w *statusWriter) run(ctx context.Context) {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.urgent:
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			w.flush(last)
			cancel()
			return
		}
		w.flush(ctx)
	}
}

func (w *statusWriter) flush(ctx context.Context) {
	w.mu.Lock()
	take := w.dirty
	w.dirty = map[string][]byte{}
	w.mu.Unlock()
	if len(take) == 0 {
		return
	}
	write := bus.Write{Topic: bus.TopicStatus}
	for _, k := range slices.Sorted(maps.Keys(take)) {
		write.Events = append(write.Events, event.Event{
			ID: k, Source: "millrace/workers", Type: "millrace.status", Key: k, Data: take[k],
		})
	}
	_, err := w.client.Append(ctx, bus.Batch{Writes: []bus.Write{write}})
	if err == nil {
		return
	}
	if ctx.Err() == nil {
		w.log.Warn("status is not stored; it is tried again", "error", err)
	}
	w.mu.Lock()
	for k, v := range take {
		if _, newer := w.dirty[k]; !newer {
			w.dirty[k] = v
		}
	}
	w.mu.Unlock()
}
