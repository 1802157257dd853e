// Package store keeps everything but the journal. One SQLite file per shard has the snapshot
// of the submissions, the chunks' inline contents and outputs, attachments, and the history
// of ended submissions. One file per server has the catalogue of queues. The only other SQL
// is the journal's. docs/formats/store.md has the tables and the bytes in them.
//
// The bytes of small calls are durable in the journal first. The store keeps them in memory (memtable)
// until a checkpoint writes them. Writes use one connection under one lock, and callers that come at
// the same time share a commit. Reads use connections of their own and never wait for a write.
package store
