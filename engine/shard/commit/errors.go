package commit

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// Unknown is the error of a commit whose outcome is unknown.
func Unknown(cause error) *queue.Error {
	return &queue.Error{Code: queue.CodeCommitFailed, Message: "The commit failed and it is not known whether it " +
		"took effect. Ask again: completions and inserts with an Idempotency-Key can be repeated safely.", Err: cause}
}

// Moved refuses a call that a shard can no longer serve because another writer has its journal. Nothing was done. cause
// is the shard's finding in the journal, and may be nil.
func Moved(cause error) *queue.Error {
	return &queue.Error{Code: queue.CodeMoved,
		Message: "Another server has taken this queue over, so nothing of this request was " +
			"done. If no other one should have, stop this server; its log and /readyz?verbose say what it found.",
		Err: cause}
}

// Failed turns the failure of an append into the error that callers can act on.
func Failed(cause error) error {
	switch {
	case errors.Is(cause, journal.ErrFull):
		return cause // which says so
	case errors.Is(cause, journal.ErrConflict):
		return Moved(cause)
	}
	return Unknown(cause)
}

// StoreFailed does so for a write to the store. It does not change errors about damage: to ask again does not help.
func StoreFailed(err error) error {
	_, damaged := errors.AsType[*queue.FormatError](err)
	if err == nil || damaged || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return Failed(err)
}
