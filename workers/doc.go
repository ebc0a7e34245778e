// Package workers runs what is desired: one loop for each source task, one
// router for each topic queue that rules read, one delivery loop for each queue
// of a target. Desired state is read from tables; every worker reconciles
// itself to it, and groups share the slots out among equal workers.
//
// Loops are bounded and hold nothing unacknowledged: a crash anywhere starts
// again from a stored position. What is appended carries the slot's epoch.
package workers
