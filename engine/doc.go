// Package engine is the queue server without its faces: use cases, one file each. It opens the data directory, runs one shard or several
// for each queue, and hands out a Queue by its name, or by arithmetic on the id of a submission. The files sharded_*.go make one queue of
// several shards. resources.go has what a queue can do beside inserting, reserving and finishing.
//
//	web, cmd ──► engine ──► shard ──► backlog, fair, reserver, strategy (pure)
//	                │         └─────► journal, store (disk)
//	                └ catalogue, ballast, lock, metrics
//
// The life of a chunk:
//
//	insert ──► ready ──reserve──► reserved ──complete──► done
//	            ▲ ▲                   │
//	            │ │   release, or a restart: no attempt is counted
//	            │ ├───────────────────┤
//	            │ │   fail, or the deadline passed, with tries left: after a delay
//	            │ └──── waiting ◄─────┤
//	            │                     │   no tries left: as the setting on_exhausted says
//	            │                     ├──► skipped
//	            │                     ├──► its submission fails, and its other chunks are skipped
//	            └───── redrive ───────┴──► dead ──► given up, or forwarded to another queue
//
// A submission ends as completed, completed with dead chunks, failed, cancelled or expired. docs/LIFECYCLE.md has the rules, and
// docs/ARCHITECTURE.md a walk of a reserve and of a complete.
package engine
