package web

import (
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// allowedAt says which numbers the field at a pointer of a request may have, as docs/LIFECYCLE.md and the document do; "" where its
// type says it all. The engine refuses with the same words what fits the type. This is for numbers that do not: their refusal must
// name the limit of the field too, not that of some type.
func allowedAt(pointer string) string {
	r, ok := queue.NumberRange(pointer)
	if below, found := strings.CutPrefix(pointer, "/settings"); found {
		r, ok = queue.SettingRange(below)
	}
	if !ok {
		return ""
	}
	return r.String()
}
