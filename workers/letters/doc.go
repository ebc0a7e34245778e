// Package letters keeps events that could not be delivered: a dead letter is a
// link to the original in a compacted topic, with why and where it failed; Redrive
// takes it out and brings its event back; Parks are the keys whose events follow
// the one that failed.
package letters
