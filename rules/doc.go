// Package rules turns rules into programs: Parse reads one, Compile checks its
// pattern, expression and steps, and a Set judges an event against all rules of
// a topic at once. Explain says why a rule did or did not match.
//
// The package is pure: it does no I/O and moves no events. Routers evaluate a
// Set, delivery loops run a Program's Chain.
package rules
