// Package transforms holds the steps that shape events, one file each, and
// Chain, which runs them in order. List names the kinds of steps with their
// specs; docs/transforms.md is made from it.
//
// A step is a value made from its config; it changes copies, does no I/O (embed
// alone may ask an endpoint) and takes the time as an argument. Steps that work on data edit its JSON text
// (jsonwalk.go, jsonedit.go), so that numbers, the order of keys and all that a
// step does not name keep their bytes. Data is trusted to be valid JSON where its
// content type says so; where it is not, a step may fail or pass it on, and
// nothing else happens.
package transforms
