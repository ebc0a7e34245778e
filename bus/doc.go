// Package bus is Millrace's broker: topics of queues, atomic batches, links and
// groups.
//
// There are few nouns. A Topic has queues; a queue holds records at offsets
// that rise by one from 0. A Batch appends to any number of topics, together
// with checkpoints and state, all or nothing. A Link places a record of one
// queue in another without copying it. A group is a set of slots; a slot has
// one owner, known by an epoch, and one checkpoint.
//
// Open gives a *Bus on the built-in engine; Client is what both *Bus and a
// remote worker's rpc client implement. The package knows nothing of rules,
// transforms or connectors.
package bus
