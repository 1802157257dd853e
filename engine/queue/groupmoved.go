package queue

import (
	"errors"
	"fmt"
)

// movedGroup marks the errors of GroupMoved.
type movedGroup struct{}

func (movedGroup) Error() string { return "the group is in another shard" }

// GroupMoved is the error of a shard whose group has moved to another shard, or is about to. The caller then looks the group up again.
func GroupMoved(group string, to int) *Error {
	return &Error{Code: CodeMoving, Err: movedGroup{}, Message: fmt.Sprintf(
		"The group %q moves to shard %d of the queue. Send this again in a moment.", clip(group, 80), to)}
}

// IsGroupMoved recognises an error of GroupMoved.
func IsGroupMoved(err error) bool {
	_, is := errors.AsType[movedGroup](err)
	return is
}
