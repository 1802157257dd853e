// Package inspect answers questions about a shard: preview and explain say which chunks a strategy would hand out and
// why, why and diagnose say why a chunk, a value or a submission moves or does not, ledgers say how tenants stand, and
// map says where the chunks of a submission are.
//
// Questions change nothing and must not slow down other calls. So the package holds the mutex only for bounded times,
// and lets other callers have it in between. A long answer therefore covers several moments. The package reads the
// machine through shell.Questions.
package inspect
