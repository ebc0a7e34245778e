// Package connect is the part of the api that answers as Kafka Connect's REST
// API does, so that its clients work unchanged: connectors, their states and
// offsets, plugins and validation.
//
// What differs follows from what Millrace is: a connector has no part of its own
// beside its tasks, deliveries of rules count among a sink's slots, and keys that
// a class of ours does not know are refused.
package connect
