package queue

import (
	"errors"
	"fmt"
)

// movedGroup marks the errors of GroupMoved.
type movedGroup struct{}

func (movedGroup) Error() string { return "the group is in another shard" }

// GroupMoved is why a shard refuses something of a group: another shard has it, or is about to. The group is looked up again
// then.
func GroupMoved(group string, to int) *Error {
	return &Error{Code: CodeMoving, Err: movedGroup{}, Message: fmt.Sprintf(
		"The group %q moves to shard %d of the queue. Send this again in a moment.", clip(group, 80), to)}
}

// IsGroupMoved recognises it.
func IsGroupMoved(err error) bool {
	_, is := errors.AsType[movedGroup](err)
	return is
}
