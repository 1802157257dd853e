// Package audit looks for contradictions in a machine: it counts again what the machine
// keeps counters of, and holds what several parts know of the same thing against each
// other. Simulations call it at every turn, and a server when it is asked to.
//
//quern:tests pure
package audit
