// Package commitlog is a log of frames on disk: one file after another, appended
// by one writer, read by many.
//
// A [Log] gives each frame a [Position], its place in bytes since the log began.
// Positions rise over all segments and never come back. What Append takes is
// durable, and can be read, once Sync has returned; after a crash the frames that
// were not synced are a prefix of what was appended, and everything synced is
// there or is reported as a [CorruptError]. FORMAT.md beside this file says how.
//
// The package runs no goroutines, knows nothing of what frames mean, and does
// no group commit: its owner calls Append as often as there is something and then
// Sync once. It stops at the first failed write or sync and serves only reads
// until it is opened again; running out of space does not count as one.
package commitlog
