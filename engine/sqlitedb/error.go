package sqlitedb

import (
	"errors"

	sqlite3 "github.com/mattn/go-sqlite3"

	"github.com/quern-queue/quern/engine/queue"
)

// Class is the meaning of a failure for the caller.
type Class uint8

// The classes. Unclear is every other failure: it is unknown whether a write took place.
const (
	NoError  Class = iota
	Full           // no room: the transaction is certainly rolled back
	SyncLost       // a sync failed: the content of the disk is unknown until the process restarts
	Taken          // a key that must be new exists already, or a column that must have a value has none
	Refused        // SQLite would not do it: a constraint of another kind, a value too large, a file that is read-only. Nothing was done
	Damaged        // the file is no sound database
	InUse          // another process has the file open and does not release it
	Unclear
)

// ClassOf sorts err, which may be wrapped.
func ClassOf(err error) Class {
	if err == nil {
		return NoError
	}
	if _, ok := errors.AsType[*queue.FormatError](err); ok {
		return Damaged
	}
	lite, ok := errors.AsType[sqlite3.Error](err)
	if !ok {
		return Unclear
	}
	switch lite.ExtendedCode {
	case sqlite3.ErrIoErrFsync, sqlite3.ErrIoErrDirFsync:
		return SyncLost
	case sqlite3.ErrConstraintPrimaryKey, sqlite3.ErrConstraintRowID, sqlite3.ErrConstraintUnique, sqlite3.ErrConstraintNotNull:
		return Taken
	}
	switch lite.Code {
	case sqlite3.ErrFull:
		// Only this code: an I/O error with ENOSPC inside may come after the commit frame has reached the log.
		return Full
	case sqlite3.ErrConstraint, sqlite3.ErrTooBig, sqlite3.ErrMismatch, sqlite3.ErrReadonly:
		return Refused
	case sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
		return Damaged
	case sqlite3.ErrBusy:
		return InUse
	}
	return Unclear
}

// AdviceDamaged is what to do about a damaged file.
const AdviceDamaged = "Stop the server, keep a copy of the file with its -wal, and restore both from a backup"

// damage makes a queue.FormatError of an error whose class is Damaged and leaves others alone.
func damage(path string, err error) error {
	if ClassOf(err) != Damaged {
		return err
	}
	if _, ok := errors.AsType[*queue.FormatError](err); ok {
		return err
	}
	return &queue.FormatError{Path: path, Reason: "is damaged", Advice: AdviceDamaged, Err: err}
}

// damagedSchema is damage for the statements that are prepared at an open: if SQLite does not understand one, the tables are wrong.
func damagedSchema(path string, err error) error {
	if lite, ok := errors.AsType[sqlite3.Error](err); ok && lite.Code == sqlite3.ErrError && ClassOf(err) != Damaged {
		return &queue.FormatError{Path: path, Reason: "does not have the tables that it should", Advice: AdviceDamaged, Err: err}
	}
	return damage(path, err)
}
