// Package audit looks for contradictions in a machine. It recounts everything that the machine's counters count, and
// compares the data of several parts about the same thing. Simulations call it after every step, and a server when an
// operator asks for it.
//
//quern:tests pure
package audit
