package api

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/bus"
	"millrace/workers"
)

// groupCollector exports the lag of every group.
type groupCollector struct {
	client bus.Client
	log    *slog.Logger
	lag    *prometheus.Desc
}

func newGroupCollector(client bus.Client, log *slog.Logger) groupCollector {
	return groupCollector{client, log, prometheus.NewDesc("millrace_group_lag", "Events that a group has still to read.", []string{"group"}, nil)}
}

// Describe names the one metric.
func (c groupCollector) Describe(out chan<- *prometheus.Desc) { out <- c.lag }

// Collect asks the bus.
func (c groupCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	groups, err := c.client.Groups(ctx)
	if err != nil {
		c.log.Warn("group lag not exported", "error", err)
		return
	}
	for _, g := range groups {
		var sum int64
		for _, slot := range g.Slots {
			sum += lag(slot)
		}
		out <- prometheus.MustNewConstMetric(c.lag, prometheus.GaugeValue, float64(sum), g.Name)
	}
}

// taskCollector exports what the tasks of this node have done.
type taskCollector struct {
	tasks                                                          func() []workers.TaskStats
	events, dropped, dead, misses, retries, batches, busy, inState *prometheus.Desc
}

func newTaskCollector(tasks func() []workers.TaskStats) taskCollector {
	desc := func(name, help string, more ...string) *prometheus.Desc {
		return prometheus.NewDesc("millrace_task_"+name, help, append(more, "kind", "name", "task"), nil)
	}
	return taskCollector{
		tasks:   tasks,
		events:  desc("events_total", "Events produced, routed or delivered since the task started."),
		dropped: desc("dropped_total", "Events dropped on purpose, by reason.", "reason"),
		dead:    desc("dead_total", "Events that went into the dead letters."),
		misses:  desc("misses_total", "Expressions that failed at run time and counted as no match."),
		retries: desc("retries_total", "Tries beyond the first."),
		batches: desc("batches_total", "Batches worked on."),
		busy:    desc("busy_seconds_total", "Time spent on batches."),
		inState: desc("state", "1 for the state that the task is in.", "state"),
	}
}

// Describe names the metrics.
func (c taskCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.events, c.dropped, c.dead, c.misses, c.retries, c.batches, c.busy, c.inState} {
		out <- d
	}
}

// Collect asks the runtime.
func (c taskCollector) Collect(out chan<- prometheus.Metric) {
	for _, t := range c.tasks() {
		put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, more ...string) {
			out <- prometheus.MustNewConstMetric(d, kind, v, append(more, t.Kind, t.Name, strconv.Itoa(t.Task))...)
		}
		put(c.events, prometheus.CounterValue, float64(t.Events))
		for reason, n := range t.Dropped {
			put(c.dropped, prometheus.CounterValue, float64(n), reason)
		}
		put(c.dead, prometheus.CounterValue, float64(t.Dead))
		put(c.misses, prometheus.CounterValue, float64(t.Misses))
		put(c.retries, prometheus.CounterValue, float64(t.Retries))
		put(c.batches, prometheus.CounterValue, float64(t.Batches))
		put(c.busy, prometheus.CounterValue, t.Busy.Seconds())
		put(c.inState, prometheus.GaugeValue, 1, t.State)
	}
}
