// Package store keeps, in one SQLite file per shard, everything that is not the journal: the snapshot of the submissions, the
// chunks' inline content and outputs, attachments, and the history of what has ended; and in one file per server the
// catalogue of queues. It holds the only SQL besides the journal's. docs/formats/store.md has the tables and the bytes in them.
//
// Bytes of small calls are durable in the journal first: the store keeps them in memory (memtable) until a checkpoint writes them.
// Writes go over one connection under one lock; content and outputs of callers that come at the same time share a commit.
// Reads go over connections of their own and never wait for a write.
package store
