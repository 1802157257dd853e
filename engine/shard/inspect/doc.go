// Package inspect answers questions about a shard: what a strategy would hand out and why
// (preview, explain), why a chunk, a value or a submission moves or does not (why,
// diagnose), how tenants stand (ledgers), and where the chunks of a submission are (map).
//
// Questions change nothing and must not slow down other calls. So the package holds the mutex only for
// bounded times, and lets other callers have it in between. A long answer is therefore about several
// moments. The package reads the machine through the interface Shard.
package inspect
