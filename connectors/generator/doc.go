// Package generator makes events up: for demonstrations, load and tests. What it
// makes depends on its config and the event's number alone, so a restart goes on
// with the same events.
package generator
