package engine

import "github.com/quern-queue/quern/engine/locks"

// Under the race detector a lock that is taken out of order fails the test that does it.
func init() { locks.Assert() }
