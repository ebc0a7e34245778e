package workers

import (
	"encoding/json"
	"time"

	"millrace/workers/letters"
)

// Tables of desired state, written by the api and read by every worker.
// Connectors are in bus.TopicConfig by name.
const (
	TopicRules       = "__rules"       // RuleDef by name
	TopicConnections = "__connections" // Connection spec by name
)

// Target states of a connector or rule.
const (
	StateRunning = "RUNNING"
	StatePaused  = "PAUSED"  // tasks stay, nothing moves
	StateStopped = "STOPPED" // tasks are gone
)

// ConnectorDef is one connector as it is wanted: its flat config, exactly as it
// was sent (references unresolved), and its target state.
type ConnectorDef struct {
	Config map[string]string `json:"config"`
	State  string            `json:"state"`
	// Restarts counts POST …/restart: a change restarts the tasks it names.
	Restarts map[string]int `json:"restarts,omitempty"` // "" = all, "0" = task 0
	Created  time.Time      `json:"created"`
	// Starts is where each slot ("topic/queue") of a sink began when the connector
	// was made; missing = the earliest.
	Starts map[string]int64 `json:"starts,omitempty"`
}

// RuleDef is one rule as it is wanted.
type RuleDef struct {
	Spec    json.RawMessage `json:"spec"` // what PUT /rules/{name} took
	Paused  bool            `json:"paused,omitempty"`
	Created time.Time       `json:"created"`
	// Starts is the first offset of each slot ("topic/queue") that concerns the
	// rule, fixed when it was made.
	Starts map[string]int64 `json:"starts"`
}

// ConnectorStatus is kept in bus.TopicStatus under "status-connector-<name>",
// TaskStatus under "status-task-<name>-<id>", both also for rules with the name
// "rule-<rule>".
type ConnectorStatus struct {
	State    string `json:"state"` // RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED
	WorkerID string `json:"worker_id"`
	Trace    string `json:"trace,omitempty"`
}

// TaskStatus is one task's or slot's state as its owner last wrote it.
type TaskStatus struct {
	ID       int       `json:"id"`
	State    string    `json:"state"`
	WorkerID string    `json:"worker_id"`
	Epoch    uint64    `json:"epoch"`
	Trace    string    `json:"trace,omitempty"`
	Events   int64     `json:"events"`  // since it started
	Dropped  int64     `json:"dropped"` // by filters
	Dead     int64     `json:"dead"`    // dead-lettered
	Misses   int64     `json:"misses"`  // expressions that failed at run time
	Updated  time.Time `json:"updated"`
}

// Names that are derived, in one place.

// RouterGroup is the group that shares out a topic's routers.
func RouterGroup(topic string) string { return "__router." + topic }

// RuleGroup is a rule's group as users see it.
func RuleGroup(rule string) string { return "rule-" + rule }

// ConnectorGroup is a connector's group.
func ConnectorGroup(connector string) string { return letters.ConnectorPrefix + connector }

// TargetTopic is the delivery queue of a rule's target number i.
func TargetTopic(rule, target string) string { return letters.DeliveryPrefix + rule + "." + target }

// DeadTopic is where dead letters go by default.
func DeadTopic(owner string) string { return "__dead." + owner }

// RedriveTopic is where dead letters of a sink connector that reads topics go
// back to: it is among the connector's slots.
func RedriveTopic(connector string) string { return letters.RedrivePrefix + connector }
