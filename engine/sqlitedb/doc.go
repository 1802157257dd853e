// Package sqlitedb is the only access to SQLite. It uses the driver directly, without database/sql, so that a statement costs one call into
// C, and nothing is pooled, retried or interrupted unnoticed. It opens a file only after it has seen that the file is ours and of a known
// version. It creates files so that a crash leaves either nothing or a whole database. It sets the durability and reads it back, and sorts
// failures into the few classes that callers treat differently.
package sqlitedb
