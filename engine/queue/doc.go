// Package queue is Quern's vocabulary: the nouns that every other package speaks, their identities, their limits and
// the errors a caller can act on. It imports nothing of ours and holds no behaviour beyond what a value can say of itself.
//
//quern:tests pure
package queue
