// Package workers runs what is desired: one loop for each source task, one
// router for each topic queue that rules read, one delivery loop for each queue
// of a rule's target and for each task of a sink connector. Desired state is read
// from tables; every worker reconciles itself to it, and groups share the slots
// out among equal workers.
//
// Loops are bounded and hold nothing unacknowledged: a crash anywhere starts
// again from a stored position. What is appended carries the slot's epoch.
//
// A Runtime plans units (plan.go, a pure function), each a membership in a group
// (unit.go) with tasks on the slots it owns (task.go). A rule stands where its
// topic's router stands, or lags and is routed alone until it has caught up
// (router.go, catchup.go). Package loop is what loops share, deliver the delivery
// loop, letters the dead letters.
//
// Pausing a rule stops its deliveries: events go on to wait in the queues of its
// targets. One that links straight into a topic stops at its own checkpoint and
// catches up when it is resumed.
package workers
