// Package index keeps the views of the log: where each run of a queue's records
// stands, what each queue holds, the latest record of each key, which places
// live links pin, and which batch ids are known. They live in one Pebble store
// without a WAL; everything in it can be rebuilt from the log (DESIGN idea 3).
//
// Each Txn carries the log position it has reached; after a crash the store
// holds a prefix of the transactions, and recovery goes on from Applied.
//
// Keys, all integers big-endian so that order is numeric:
//
//	m                                     → applied position u64, live bytes u64
//	q topic u64, queue u32                → first, next, bytes
//	r topic u64, queue u32, offset u64    → Run (offset = its first)
//	k topic u64, key                      → queue u32, offset u64
//	l topic u64, queue u32, min u64, linking topic u64, queue u32, offset u64 → max u64
//	d topic u64, queue u32, offset u64    → a dead run that links may still refer to
//	b id                                  → Known
package index
