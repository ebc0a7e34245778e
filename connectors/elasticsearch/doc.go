// Package elasticsearch writes events as documents to Elasticsearch, OpenSearch
// and what speaks their bulk protocol. It uses plain HTTP: the clients of either
// refuse the servers of the other.
//
// A write sends its records before it returns, so what fails alone is told by
// record. Where a document has a version from the source's position, repetitions
// and redriven events never undo what is newer. Invariants 4 and 11.
package elasticsearch
