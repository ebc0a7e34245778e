// Package transforms holds the steps that shape events, one file each, and
// Chain, which runs them in order. A step is a value made from its config; it
// changes copies, does no I/O unless it is named for it, and takes the time as
// an argument.
package transforms
