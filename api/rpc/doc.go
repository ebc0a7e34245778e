// Package rpc carries bus.Client over gRPC, so that a worker in another process
// runs the same code as one in the broker's. NewServer serves a bus.Client, Dial
// returns one.
//
// The methods are a hand-written service with a codec of our own (WIRE.md), for
// the messages are our own binary records and no code has to be generated. A
// Client hides lost connections: it tries again until the caller's context ends.
// What changes something carries an id, so that it is done once however often it
// is tried: appends by their batch id, which outlives a restart of the broker,
// the rest by a request id that the server remembers. Errors arrive as they were:
// errors.Is and *bus.Error see what they would see in process.
//
// The package does not listen: the caller owns listener and grpc.Server.
package rpc
