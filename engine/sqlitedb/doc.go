// Package sqlitedb is the one door to SQLite: the driver used directly, without database/sql, so that a statement costs one
// call into C and nothing is pooled, retried or interrupted behind our back. It opens files only after it has seen that they
// are ours and of a version we know, creates them so that a crash leaves either nothing or a whole database, sets the
// durability and reads it back, and sorts failures into the few classes that callers treat differently.
package sqlitedb
