// Package powerloss holds tests only: it has the power fail under the engine, at every kind of moment, and looks whether everything that
// was acknowledged is there afterwards. The method is that of SQLite's own tests: what is written is noted below SQLite, and any part of
// what was not synced is taken away. It also has disks that are full, that fail, and that are slow.
//
//quern:tests processes
package powerloss
