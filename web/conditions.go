package web

// If-Match and If-None-Match: a change depends on the version that the client saw. The conditions
// are checked by the engine, in the same hold of the lock in which it makes the change. Checked
// before it, two clients could both pass.

import (
	"fmt"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// Conditions are the headers that make a change depend on what is there. It is exported
// because huma only looks into exported fields.
type Conditions struct {
	IfMatch     string `header:"If-Match" doc:"ETags; one must be that of the newest version. *: a version must exist"`
	IfNoneMatch string `header:"If-None-Match" doc:"*: none may exist"`
}

// hold refuses a change if the conditions do not hold for what is there: a version from 1
// on, with its ETag, or 0 for nothing.
func (c *Conditions) hold(what string, version uint32, etag string) error {
	switch {
	case c.IfNoneMatch != "" && strings.TrimSpace(c.IfNoneMatch) != "*":
		return queue.Invalid("/header/If-None-Match",
			"must be *, which only creates; to replace something that exists, send its ETag in If-Match")
	case version != 0 && c.IfNoneMatch != "":
		return newProblem(codePrecondition, fmt.Sprintf("There is a %s already, in version %d.", what, version))
	case version == 0 && c.IfMatch != "":
		return newProblem(codePrecondition, fmt.Sprintf("There is no %s, so none that If-Match could name.", what))
	case c.IfMatch != "" && !matchesETag(c.IfMatch, etag):
		return newProblem(codePrecondition, fmt.Sprintf("It is in version %d, which is not one that If-Match names. "+
			"Read it again, then retry with its new ETag.", version))
	}
	return nil
}

// matchesETag compares strongly: a weak ETag matches nothing. Our ETags have no commas, so
// the list can be cut at them.
func matchesETag(list, etag string) bool {
	for candidate := range strings.SplitSeq(list, ",") {
		if candidate = strings.TrimSpace(candidate); candidate == "*" || candidate == etag {
			return true
		}
	}
	return false
}
