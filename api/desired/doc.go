// Package desired changes what is wanted of a Millrace: topics, connections,
// connectors, rules and pipelines, which workers then reconcile themselves to.
//
// A Store gives Views, what is wanted now, and Plans. A Plan gathers changes, each
// checked against what is wanted once those before it are done, and Commit makes
// them: topics first, then all definitions in one batch (Invariant 2), then what
// has to go. Until Commit nothing has changed, so a bad one among many changes
// nothing (Invariant 7). Plans of one Store take turns; of two nodes that change
// one thing at once, the last wins.
package desired
