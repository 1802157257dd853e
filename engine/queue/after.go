package queue

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/quern-queue/quern/sdk/api"
)

// MaxAfter is how many submissions another one can wait for, MaxAwaited how many such waits a queue has at a time. A wait
// takes up to some 250 bytes of memory.
const (
	MaxAfter   = api.MaxAfter
	MaxAwaited = 1 << 20
)

// After are the submissions that another one waits for: none of its chunks is handed out before.
type After struct {
	IDs   []SubmissionID // of the same shard, each once
	Ended bool           // until they have ended in any way; else until all of them are completed
	// what happens if one ends otherwise, at most one of the two, and none with Ended; else the submission that waits is cancelled
	Run        bool // it counts as completed
	DeadLetter bool // the chunks of the submission that waits become dead letters
}

// The names of the fields and values of After.
var (
	afterStates = []string{"completed", "ended"}
	afterUnmet  = []string{"cancel", "run", "dead_letter"}
)

// NewAfter reads the submissions that an insert waits for. The pointer of an error is relative to the submission.
func NewAfter(ids []string, until, onUnmet string) (*After, error) {
	a := &After{Ended: until == afterStates[1], Run: onUnmet == afterUnmet[1], DeadLetter: onUnmet == afterUnmet[2]}
	switch {
	case len(ids) == 0 || len(ids) > MaxAfter:
		return nil, Invalid("/after/ids", "has %d ids; 1 to %d are allowed", len(ids), MaxAfter)
	case until != "" && !slices.Contains(afterStates, until):
		return nil, Invalid("/after/until", "must be %s", oneOf(afterStates))
	case onUnmet != "" && !slices.Contains(afterUnmet, onUnmet):
		return nil, Invalid("/after/on_unmet", "must be %s", oneOf(afterUnmet))
	case onUnmet != "" && a.Ended:
		return nil, Invalid("/after/on_unmet", "has no effect with until %s, as any end is what is waited for; leave it out, or set "+
			"until to %s", afterStates[1], afterStates[0])
	}
	for i, text := range ids {
		id, err := ParseSubmissionID(text)
		if err != nil {
			return nil, Invalid(afterPointer(i), "is not the id of a submission")
		}
		if slices.Contains(a.IDs, id) {
			return nil, Invalid(afterPointer(i), "is named twice")
		}
		a.IDs = append(a.IDs, id)
	}
	return a, nil
}

func afterPointer(i int) string { return "/after/ids/" + strconv.Itoa(i) }

// Met says that an end in this state ends the wait.
func (a *After) Met(state SubmissionState) bool { return a.Ended || a.Run || state == Completed }

// Unknown is the error of an insert that is to wait for a submission that does not exist.
func (a *After) Unknown(id SubmissionID) error {
	return a.refuse(id, "is no submission of this queue: it never existed, or was deleted")
}

// Apart is the error of an insert that is to wait for a submission of another shard.
func (a *After) Apart(id SubmissionID) error {
	return a.refuse(id, "is no submission of this queue, or, if the queue has several shards, of the same group; a submission waits "+
		"only for those of its own queue and group")
}

func (a *After) refuse(id SubmissionID, why string) error {
	return Invalid(afterPointer(slices.Index(a.IDs, id)), "%s", why)
}

// meaning appends what NewSubmission.Meaning hashes.
func (a *After) meaning(b []byte) []byte {
	for _, id := range a.IDs {
		b = binary.AppendUvarint(b, uint64(id))
	}
	b = strconv.AppendBool(strconv.AppendBool(append(b, 0), a.Ended), a.Run)
	if a.DeadLetter { // an insert without it must mean the same as before it existed
		b = append(b, afterUnmet[2]...)
	}
	return b
}

// API is the After as JSON carries it.
func (a *After) API() *api.After {
	if a == nil {
		return nil
	}
	out := &api.After{IDs: Texts(a.IDs), Until: afterStates[0], OnUnmet: afterUnmet[0]}
	if a.Ended {
		out.Until, out.OnUnmet = afterStates[1], ""
	}
	switch {
	case a.Run:
		out.OnUnmet = afterUnmet[1]
	case a.DeadLetter:
		out.OnUnmet = afterUnmet[2]
	}
	return out
}

// Texts are ids as JSON carries them.
func Texts(ids []SubmissionID) (out []string) {
	for _, id := range ids {
		out = append(out, id.String())
	}
	return out
}
