package shard

import (
	"context"
	"errors"

	"github.com/quern-queue/quern/engine/queue"
)

// storeError turns the failure of a write to the store into the error that its caller can
// act on. Damage stays what it is: to ask again does not help.
func storeError(err error) error {
	_, damaged := errors.AsType[*queue.FormatError](err)
	if err == nil || damaged || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return commitError(err)
}
