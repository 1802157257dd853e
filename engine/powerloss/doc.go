// Package powerloss holds tests only. They let the power fail under the engine, at every kind of moment, and check that all acknowledged
// work is there afterwards. The method is that of SQLite's own tests: writes are noted below SQLite, and any part of those that were not
// synced is taken away. It also has disks that are full, that fail, and that are slow.
//
//quern:tests processes
package powerloss
