// Package audit looks for contradictions in a machine. It counts again what the machine's
// counters count, and compares what several parts know about the same thing. Simulations
// call it after every step, and a server when an operator asks for it.
//
//quern:tests pure
package audit
