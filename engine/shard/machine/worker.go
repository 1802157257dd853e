package machine

// This file is the life-cycle worker: it does what the time demands. It first looks at what is due,
// in memory, and then gives commands like any other caller: they are decided under the mutex, go
// through the group commit, and are looked at again when they are applied. It works in slices of at
// most tickMost actions, and waits for each to be on the disk before it makes the next, so that
// callers are never held up for longer than one slice takes. What it believes about the next due
// time does not matter: every pass looks again, and the engine has it pass many times a second.

// TickMost bounds how many actions of a kind one slice has, and with it what one hold of the mutex does.
const TickMost = 500
