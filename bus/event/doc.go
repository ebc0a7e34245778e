// Package event holds the values that flow through Millrace: Event (CloudEvents
// 1.0), Record (an event at its place in a topic) and Ref (a place).
//
// The package does no I/O and imports nothing of Millrace. Encodings live in
// json.go (the CloudEvents JSON format) and binary.go (the log's own records).
package event
