// Package connectorstest is what every connector must pass, against real input
// and real targets. A connector's own tests call Source, Sink or Config with a
// case that says how to make them.
package connectorstest
