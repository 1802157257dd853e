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

// Match is the header of a change of what is always there: settings of a queue, a priority, a content. There is no
// If-None-Match for it, which would refuse every change. It is exported like Conditions.
type Match struct {
	IfMatch string `header:"If-Match" doc:"ETags; one must be that of what the change replaces. *: any"`
}

// hold refuses a change of anything but what If-Match names.
func (m *Match) hold(etag string) error {
	if m.IfMatch == "" || matchesETag(m.IfMatch, etag) {
		return nil
	}
	return newProblem(codePrecondition, changedSince)
}

// changedSince names no version: a digest tells its reader nothing, and what changed is in the audit log.
const changedSince = "It has changed: its ETag is not one that If-Match names. Read it again, then retry with its " +
	"new ETag."

// hold refuses a change if the conditions do not hold for what is there: a version from 1
// on, with its ETag, or 0 for nothing.
func (c *Conditions) hold(what string, version uint32, etag string) error {
	switch {
	case c.IfNoneMatch != "" && strings.TrimSpace(c.IfNoneMatch) != "*":
		return queue.Invalid("/header/If-None-Match",
			"must be *, which only creates; to replace something that exists, send its ETag in If-Match")
	case version != 0 && c.IfNoneMatch != "":
		return newProblem(codePrecondition, fmt.Sprintf("There is a %s already, with the ETag %s.", what, etag))
	case version == 0 && c.IfMatch != "":
		return newProblem(codePrecondition, fmt.Sprintf("There is no %s, so none that If-Match could name.", what))
	case c.IfMatch != "" && !matchesETag(c.IfMatch, etag):
		return newProblem(codePrecondition, changedSince)
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
