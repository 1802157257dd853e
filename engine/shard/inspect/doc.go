// Package inspect answers questions about a shard: what a strategy would hand out and why
// (preview, explain), why a chunk, a value or a submission moves or does not (why,
// diagnose), how tenants stand (ledgers), and where the chunks of a submission are (map).
//
// Questions change nothing and must not slow down those who work: each is answered in holds of the
// mutex of bounded length, between which everybody else has a turn. So an answer about much is
// about several moments. What is asked is the Shard interface: a machine, and how to look at it.
package inspect
