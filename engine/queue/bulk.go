package queue

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/sdk/api"
)

// BulkAction is what a bulk operation does with everything that its filter means.
type BulkAction uint8

// The actions. Redrive, Delete and Forward are about dead letters, Retry and GiveUp about chunks that wait for a retry, Cancel
// and Reprioritize about open submissions, Purge about open and ended ones.
const (
	BulkRedrive BulkAction = iota
	BulkDelete
	BulkForward
	BulkRetry
	BulkGiveUp
	BulkCancel
	BulkReprioritize
	BulkPurge
)

var bulkActions = [...]string{"redrive", "delete", "forward", "retry", "give_up", "cancel", "reprioritize", "purge"}

func (a BulkAction) String() string { return bulkActions[a] }

// ParseBulkAction reads the name of an action.
func ParseBulkAction(name string) (BulkAction, bool) {
	i := slices.Index(bulkActions[:], name)
	return BulkAction(max(i, 0)), i >= 0
}

// BulkActions are the names of all actions.
func BulkActions() []string { return slices.Clone(bulkActions[:]) }

// OnLetters says that the action is about dead letters.
func (a BulkAction) OnLetters() bool { return a <= BulkForward }

// OnRetries says that the action is about chunks that wait for a retry.
func (a BulkAction) OnRetries() bool { return a == BulkRetry || a == BulkGiveUp }

// OnChunks says that the action takes chunk by chunk; the others take whole submissions.
func (a BulkAction) OnChunks() bool { return a <= BulkGiveUp }

// BulkState is the state of a bulk operation. Every state but BulkRunning is final.
type BulkState uint8

// The states.
const (
	BulkRunning BulkState = iota
	BulkCompleted
	BulkCancelled
	BulkFailed
)

var bulkStates = [...]string{"running", "completed", "cancelled", "failed"}

func (s BulkState) String() string { return bulkStates[s] }

// BulkFilter says what a bulk operation is about; everything given has to fit, and the zero value means all.
type BulkFilter struct {
	Dead          DeadFilter        // of a chunk: its submission, the fingerprint of its last error, when that try ended
	States        []SubmissionState // of the submission; empty: any
	Meta          Meta              // of the submission: every entry has to match
	CreatedBefore Time              // the submission; 0: at any time
	CreatedAfter  Time              // at this time or later
}

// AnySubmission says that the filter looks at nothing of a submission but its id.
func (f *BulkFilter) AnySubmission() bool {
	return len(f.States) == 0 && len(f.Meta) == 0 && f.CreatedBefore == 0 && f.CreatedAfter == 0
}

// Matches says whether the filter means the chunks of a submission, as far as it depends on the submission.
func (f *BulkFilter) Matches(id SubmissionID, state SubmissionState, meta Meta) bool {
	if f.Dead.Submission != 0 && f.Dead.Submission != id || len(f.States) > 0 && !slices.Contains(f.States, state) ||
		f.CreatedBefore != 0 && id.Time() >= f.CreatedBefore || id.Time() < f.CreatedAfter {
		return false
	}
	for _, entry := range f.Meta {
		if value, there := meta.Find(entry.Key); !there || value != entry.Value {
			return false
		}
	}
	return true
}

// BulkRequest asks for an action on everything in a queue that the filter means, as of the start of the operation.
type BulkRequest struct {
	Action   BulkAction
	Filter   BulkFilter
	To       string // of BulkForward: the queue
	Priority int64  // of BulkReprioritize
	Actor    string // the caller, by the name that it gave; at most MaxActorBytes
	Limit    uint32 // do it with this many matches, and end; 0: with all
	Rate     uint32 // chunks or submissions per second at most; 0: as fast as it goes
	DryRun   bool   // count the results that the operation would have, and change nothing
}

// BulkCounts are the results of a bulk operation so far, or those that a dry run expects. Matched is the sum of the others.
type BulkCounts struct {
	Matched   uint64 // everything that the filter means
	Done      uint64 // redriven, deleted, ...
	Unchanged uint64 // nothing was left to do: another caller was first, or it is so already
	Refused   uint64 // its state forbids it, for example a dead_deadline that passed
}

// Add adds the difference between counts and before.
func (c *BulkCounts) Add(counts, before BulkCounts) {
	c.Matched += counts.Matched - before.Matched
	c.Done += counts.Done - before.Done
	c.Unchanged += counts.Unchanged - before.Unchanged
	c.Refused += counts.Refused - before.Refused
}

// BulkWalk is the progress of a bulk operation through everything that it has to look at, whether its filter means it or not: the dead
// letters of the queue, its chunks that wait for a retry, or its open submissions; with a filter for one submission, only those of that
// one. Examined is never more than ToExamine. ToExamine is counted at the start. It falls only if fewer are left to look at. Both are the
// same when the operation has completed.
type BulkWalk struct {
	Examined  uint64
	ToExamine uint64
}

// Percent is the part that was walked over, rounded down. It is 100 for an operation that has completed, and for no other.
func (w BulkWalk) Percent(state BulkState) int {
	switch {
	case state == BulkCompleted:
		return 100
	case w.ToExamine == 0:
		return 0
	}
	return min(int(float64(w.Examined)/float64(w.ToExamine)*100), 99)
}

// Left is how much is still to be walked over, at most.
func (w BulkWalk) Left() uint64 { return w.ToExamine - w.Examined }

// Bulk is a bulk operation and how far it got.
type Bulk struct {
	BulkRequest
	ID        BulkID
	Queue     string
	State     BulkState
	Counts    BulkCounts
	Walk      BulkWalk
	Remaining time.Duration // estimated time until it has walked over all; 0: not known, or it has ended
	Finished  Time          // 0 while it runs
	Failure   string        // of a failed one
	EndedBy   string        // the caller that cancelled it, by the name that it gave
}

// BulkID names a bulk operation. It is drawn like the id of a submission, so it tells the shard and the time of the start.
type BulkID SubmissionID

func (id BulkID) String() string { return "b" + strconv.FormatUint(uint64(id), 10) }

// Created is when the operation was started.
func (id BulkID) Created() Time { return SubmissionID(id).Time() }

// ParseBulkID reads what String wrote.
func ParseBulkID(text string) (BulkID, bool) {
	digits, ours := strings.CutPrefix(text, "b")
	id, err := ParseSubmissionID(digits)
	return BulkID(id), ours && err == nil
}

// Bounds of bulk operations.
const (
	MaxBulkRunning = 16  // of a queue: each takes its turn
	MaxBulkKept    = 100 // ended ones of a queue that can be read, the newest

	MaxOldest = api.MaxOldest
)
