// Package group decides who owns which slot of which group. It is a state
// machine and nothing else: no I/O, no clock, no goroutine, nothing of Millrace
// imported. The bus feeds it joins, heartbeats and the time, stores the grants it
// decides and tells it once they are durable.
//
// A group shares out the union of the slots its members name. The shares differ
// by at most one slot and as few slots as possible move when members come and go.
// A slot that moves does so in steps: it disappears from its owner's answer; the
// owner's next heartbeat (or the end of its lease) says that it has been stopped;
// a grant to the new owner under a higher epoch is decided; the bus stores it;
// only then the new owner is told. So at any time one member at most holds a slot,
// and it holds it under an epoch no other ever had. Invariants 4 and 11.
//
// What is said of time rests on one promise: the lease an owner sees (Slot.Until)
// ends a fifth of the lease before the one this package acts on.
package group
