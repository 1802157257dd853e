package host

import (
	"errors"
	"fmt"
)

// Kind is what went wrong in the guest; it is a metric's value.
type Kind string

// The kinds of faults.
const (
	Fuel      Kind = "fuel"      // the budget is used up
	Deadline  Kind = "deadline"  // the time is
	Depth     Kind = "depth"     // too many calls within calls
	Trap      Kind = "trap"      // unreachable, a division by zero, an access outside of memory, abort
	Status    Kind = "status"    // quern_score returned something else than 0
	Exit      Kind = "exit"      // the guest ended itself; what a panic of a Go guest does
	Unwritten Kind = "unwritten" // it returned 0 and wrote no score at all
	Init      Kind = "init"      // it failed before its first batch, for the Cause
	Stopped   Kind = "stopped"   // not its own fault: the caller or the server stopped it
)

// Fault is the error of a guest that failed. The instance is gone; the version can be used on.
type Fault struct {
	Kind   Kind
	Cause  Kind   // of Init: what happened
	Detail string // for people
	Code   int32  // of Status and Exit
}

func (f *Fault) Error() string {
	text := "host: plugin fault: " + string(f.Kind)
	if f.Cause != "" {
		text += " (" + string(f.Cause) + ")"
	}
	if f.Kind == Status || f.Kind == Exit || f.Cause == Status || f.Cause == Exit {
		text += fmt.Sprintf(" %d", f.Code)
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	return text
}

// ErrClosed is the error of a version that is closing: take the one that replaced it.
var ErrClosed = errors.New("host: the version is closed")
