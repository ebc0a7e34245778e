package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The tables of -o table: each reads an answer of the REST API.

func topicsTable(raw json.RawMessage) (table, error) {
	var list []struct {
		Name       string
		Queues     int
		Type       string
		Durability string
		Retention  struct {
			Age   string
			Bytes int64
		}
	}
	t := table{head: []string{"NAME", "QUEUES", "TYPE", "DURABILITY", "KEEPS", "BYTES"}}
	err := decodeAnswer(raw, &list)
	for _, x := range list {
		age, size := x.Retention.Age, any(x.Retention.Bytes)
		if x.Retention.Bytes == 0 {
			size = ""
		}
		t.add(x.Name, x.Queues, x.Type, x.Durability, age, size)
	}
	return t, err
}

// topicTable shows a topic's settings, then what each of its queues holds.
func topicTable(raw json.RawMessage) (table, error) {
	t, err := fieldTable(raw)
	if err != nil {
		return t, err
	}
	var topic struct {
		Bounds []struct {
			Queue       int
			First, Next int64
		}
	}
	t.rows = slices.DeleteFunc(t.rows, func(row []string) bool { return row[0] == "bounds" })
	err = decodeAnswer(raw, &topic)
	for _, b := range topic.Bounds {
		t.add(fmt.Sprintf("queue %d", b.Queue), fmt.Sprintf("%d events, offsets from %d to before %d", b.Next-b.First, b.First, b.Next))
	}
	return t, err
}

// connectorState is Connect's answer to GET /connectors/{name}/status.
type connectorState struct {
	Name      string
	Type      string
	Connector struct {
		State string
		Trace string
	}
	Tasks []struct {
		ID       int
		State    string
		WorkerID string `json:"worker_id"`
		Trace    string
	}
}

func connectorsTable(raw json.RawMessage) (table, error) {
	var all map[string]struct {
		Status connectorState
		Info   struct{ Config map[string]string }
	}
	t := table{head: []string{"NAME", "CLASS", "STATE", "TASKS", "TRACE"}}
	err := decodeAnswer(raw, &all)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		x := all[name]
		trace := x.Status.Connector.Trace
		running := make(map[string]int)
		for _, task := range x.Status.Tasks {
			running[task.State]++
			if trace == "" {
				trace = task.Trace
			}
		}
		t.add(name, x.Info.Config["connector.class"], x.Status.Connector.State, counts(running), firstLine(trace))
	}
	return t, err
}

// counts writes "2 RUNNING, 1 FAILED".
func counts(of map[string]int) string {
	parts := make([]string, 0, len(of))
	for _, k := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%d %s", of[k], k))
	}
	return strings.Join(parts, ", ")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func connectorTable(raw json.RawMessage) (table, error) {
	var info struct{ Config map[string]string }
	t := table{head: []string{"KEY", "VALUE"}}
	err := decodeAnswer(raw, &info)
	for _, k := range slices.Sorted(maps.Keys(info.Config)) {
		t.add(k, info.Config[k])
	}
	return t, err
}

func statusTable(raw json.RawMessage) (table, error) {
	var s connectorState
	t := table{head: []string{"TASK", "STATE", "WORKER", "TRACE"}}
	err := decodeAnswer(raw, &s)
	t.add("connector", s.Connector.State, "", firstLine(s.Connector.Trace))
	for _, x := range s.Tasks {
		t.add(x.ID, x.State, x.WorkerID, firstLine(x.Trace))
	}
	return t, err
}

func rulesTable(raw json.RawMessage) (table, error) {
	var list []struct {
		Name   string
		Paused bool
		State  string
		Spec   struct {
			From    []string
			To      []json.RawMessage
			OnError string
		}
	}
	t := table{head: []string{"NAME", "FROM", "TO", "ON ERROR", "STATE"}}
	err := decodeAnswer(raw, &list)
	for _, x := range list {
		to := make([]string, len(x.Spec.To))
		for i, target := range x.Spec.To {
			to[i] = string(target)
		}
		state := x.State
		if x.Paused {
			state = "PAUSED"
		}
		t.add(x.Name, strings.Join(x.Spec.From, ","), strings.Join(to, " "), x.Spec.OnError, state)
	}
	return t, err
}

func groupsTable(raw json.RawMessage) (table, error) {
	var list []struct {
		Name string
		Mode string
		Lag  int64
	}
	t := table{head: []string{"NAME", "MODE", "LAG"}}
	err := decodeAnswer(raw, &list)
	for _, x := range list {
		t.add(x.Name, x.Mode, x.Lag)
	}
	return t, err
}

func groupTable(raw json.RawMessage) (table, error) {
	var g struct {
		Queues []struct {
			Topic       string
			Queue       int
			First, Next int64
			Checkpoint  *int64
			Lag         int64
			Owner       string
		}
	}
	t := table{head: []string{"TOPIC", "QUEUE", "FIRST", "NEXT", "CHECKPOINT", "LAG", "OWNER"}}
	err := decodeAnswer(raw, &g)
	for _, q := range g.Queues {
		var checkpoint any
		if q.Checkpoint != nil && *q.Checkpoint >= 0 {
			checkpoint = *q.Checkpoint
		}
		t.add(q.Topic, q.Queue, q.First, q.Next, checkpoint, q.Lag, q.Owner)
	}
	return t, err
}

func deadTable(raw json.RawMessage) (table, error) {
	var list []struct {
		Topic string
		Count int64
	}
	t := table{head: []string{"TOPIC", "EVENTS"}}
	err := decodeAnswer(raw, &list)
	for _, x := range list {
		t.add(x.Topic, x.Count)
	}
	return t, err
}

func deadEventsTable(raw json.RawMessage) (table, error) {
	var list []map[string]any
	t := table{head: []string{"ID", "SOURCE", "STEP", "REASON", "ORIGIN"}}
	err := decodeAnswer(raw, &list)
	for _, e := range list {
		t.add(e["id"], e["source"], e["mrstep"], e["mrreason"], e["mrorigin"])
	}
	return t, err
}

// namesTable shows a list of things of which only the name is short enough.
func namesTable(raw json.RawMessage) (table, error) {
	var list []struct{ Name string }
	t := table{head: []string{"NAME"}}
	err := decodeAnswer(raw, &list)
	for _, x := range list {
		t.add(x.Name)
	}
	return t, err
}

func appliedTable(raw json.RawMessage) (table, error) {
	var list []applied
	t := table{head: []string{"KIND", "NAME", "ACTION"}}
	err := decodeAnswer(raw, &list)
	for _, x := range list {
		t.add(x.Kind, x.Name, x.Action)
	}
	return t, err
}

// fieldTable shows any object, one field a row; what is nested stays JSON.
func fieldTable(raw json.RawMessage) (table, error) {
	var fields map[string]json.RawMessage
	t := table{head: []string{"FIELD", "VALUE"}}
	err := decodeAnswer(raw, &fields)
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		var text string
		if json.Unmarshal(fields[k], &text) != nil {
			text = string(fields[k])
		}
		t.add(k, text)
	}
	return t, err
}
