// Package vectors is the vectors sink: an embedded store of chunks in one SQLite
// file, searched by vector (sqlite-vec) and by words (FTS5).
//
// A document is replaced as a whole: its new chunks wait in the file until all of
// them are there; then one transaction takes the old ones out and puts the new
// ones in. Readers see one version or the other, whole. What is older than the
// stored version, by its position in the source, is left out (Invariant 4), and a
// deleted document leaves its position behind for the same reason.
//
// Every Flush is one transaction, with the offsets of the slots it covers.
//
// config.go: how it is configured. record.go: from events to entries. sink.go: the
// Sink. store.go: the file and its schema. merge.go: what a transaction does.
// search.go: the Searcher.
package vectors
