// Package settings is the part of a shard that has the settings of operators: those of the queue, limits and weights of
// values of meta keys, and named strategies. Each change is an op in the journal. So it is in effect when the call is
// answered, has its place in the one order of all changes, and also reaches a server that takes the journal over.
package settings
