// Package queue is Quern's vocabulary: the nouns that every other package speaks, their identities, their limits and the errors a caller
// can act on. It imports nothing of ours. Its values have no behaviour beyond questions about themselves.
//
//quern:tests pure
package queue
