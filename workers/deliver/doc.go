// Package deliver is the loop that brings events from queues to a target: a topic,
// an HTTP endpoint or a sink connector. A task serves lanes, one for each queue;
// each has its own checkpoint and its own way to deal with failures, so that a
// failing event holds up its own queue at most.
//
// A checkpoint follows the flush of what it stands for (Invariant 5); dead letters
// and state join the batch of the checkpoint.
package deliver
