package engine

import (
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// below moves the pointers of an error about a part of a request to where that part is: "/items/3" under "/complete"
// becomes "/complete/3", anything else is put behind.
func below(part string, err error) error {
	return queue.Repointed(err, func(pointer string) string { return part + strings.TrimPrefix(pointer, "/items") })
}
