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
}

var lagDesc = prometheus.NewDesc("millrace_group_lag", "Events that a group has still to read.", []string{"group"}, nil)

// Describe names the one metric.
func (groupCollector) Describe(out chan<- *prometheus.Desc) { out <- lagDesc }

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
		out <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, float64(sum), g.Name)
	}
}

// taskCollector exports what the tasks of this node have done.
type taskCollector struct {
	tasks func() []workers.TaskStats
}

var (
	taskLabels  = []string{"kind", "name", "task"}
	taskEvents  = prometheus.NewDesc("millrace_task_events_total", "Events produced, routed or delivered since the task started.", taskLabels, nil)
	taskDropped = prometheus.NewDesc("millrace_task_dropped_total", "Events dropped on purpose, by reason.", append([]string{"reason"}, taskLabels...), nil)
	taskDead    = prometheus.NewDesc("millrace_task_dead_total", "Events that went into the dead letters.", taskLabels, nil)
	taskMisses  = prometheus.NewDesc("millrace_task_misses_total", "Expressions that failed at run time and counted as no match.", taskLabels, nil)
	taskRetries = prometheus.NewDesc("millrace_task_retries_total", "Tries beyond the first.", taskLabels, nil)
	taskBatches = prometheus.NewDesc("millrace_task_batches_total", "Batches worked on.", taskLabels, nil)
	taskBusy    = prometheus.NewDesc("millrace_task_busy_seconds_total", "Time spent on batches.", taskLabels, nil)
	taskState   = prometheus.NewDesc("millrace_task_state", "1 for the state that the task is in.", append([]string{"state"}, taskLabels...), nil)
)

// Describe names the metrics.
func (taskCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{taskEvents, taskDropped, taskDead, taskMisses, taskRetries, taskBatches, taskBusy, taskState} {
		out <- d
	}
}

// Collect asks the runtime.
func (c taskCollector) Collect(out chan<- prometheus.Metric) {
	for _, t := range c.tasks() {
		of := []string{t.Kind, t.Name, strconv.Itoa(t.Task)}
		count := func(d *prometheus.Desc, v float64, more ...string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, append(more, of...)...)
		}
		count(taskEvents, float64(t.Events))
		for reason, n := range t.Dropped {
			count(taskDropped, float64(n), reason)
		}
		count(taskDead, float64(t.Dead))
		count(taskMisses, float64(t.Misses))
		count(taskRetries, float64(t.Retries))
		count(taskBatches, float64(t.Batches))
		count(taskBusy, t.Busy.Seconds())
		out <- prometheus.MustNewConstMetric(taskState, prometheus.GaugeValue, 1, append([]string{t.State}, of...)...)
	}
}
