package shard

import (
	"errors"

	"github.com/quern-queue/quern/engine/journal"
)

// storeError turns a full disk into the error that its caller can act on.
func storeError(err error) error {
	if errors.Is(err, journal.ErrFull) {
		return commitError(err)
	}
	return err
}
