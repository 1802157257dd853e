// Package engine is the queue server without its faces: use cases, one file each. It opens the data directory, runs one
// shard per queue (for now), and finds the shard of every call by the queue's name or by arithmetic on the id.
//
//	web, cmd ──► engine ──► shard ──► backlog, fair, reserver, strategy (pure)
//	                │         └─────► journal, store (disk)
//	                └ catalogue, ballast, lock, metrics
//
// What happens to a chunk:
//
//	insert ──► ready ──reserve──► reserved ──complete──► done
//	             ▲                   │
//	             │     release, or fail and a deadline passed with tries left
//	             ├───────────────────┤
//	             └──── waiting ◄─────┤ (with a delay)
//	                                 └──► dead (no tries left): its submission fails
package engine
