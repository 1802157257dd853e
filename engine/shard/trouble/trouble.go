// Package trouble decides what the life-cycle worker does after failures. A slice whose
// commit failed has changed nothing, and the worker repeats it later. If the slices of a
// kind keep failing, the next ones are smaller and have batches of their own. So the worker
// finds the failing action by bisection, while all other actions and calls succeed. It
// parks this action: it leaves it alone until an operator retries it.
package trouble

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/sdk/api"
)

// The bounds and pauses for failures.
const (
	degradedAfter = 3      // slices of one kind that failed in a row, after which inserts are refused
	ParkAfter     = 2      // failures of one action alone, in a row, after which it is parked
	parkedMost    = 10_000 // actions that are parked; beyond it they are tried again and again

	firstPause  = 500 * time.Millisecond
	longestWait = 5 * time.Second // no kind sleeps longer
	pauseFactor = 1.5
	pauseJitter = 0.2
)

// Kind has the recent failures of one kind of action.
//
// The search for the failing action among the due ones:
//
//	slice of 500 fails ─► Limit 250 ─► ... ─► Limit 1: one action, in a batch of its own
//	                                             ├ commits: on to the next
//	                                             └ fails ParkAfter+1 times: parked, and the others go on
//
// A slice that succeeds with fewer actions than it could take ends the search (Pass). A full disk never narrows: no
// action is to blame for it, and parking them all would stop the queue for good.
type Kind struct {
	Limit    int        // of actions in a slice while the search goes on; 0: machine.TickMost
	Failures int        // in a row
	alone    int        // of them, those of the same single action
	again    queue.Time // no slice before
	Err      error      // of the last failure; nil after a success
	Failed   uint64     // slices, since the start
	Success  queue.Time // of the last slice that succeeded; 0: none yet
}

// Most is how many actions the next slice has.
func (k *Kind) Most() int {
	if k.Limit == 0 {
		return machine.TickMost
	}
	return k.Limit
}

// May says whether the pause after the last failure is over. A clock that was set back
// does not make it longer.
func (k *Kind) May(now queue.Time) bool {
	return k.again <= now || k.again > now.Add(longestWait)
}

// fail notes a failed slice. seed is for the jitter.
func (k *Kind) fail(err error, now queue.Time, seed uint64) {
	k.Failures++
	k.Failed++
	k.Err = err
	pause := float64(firstPause)
	for n := 1; n < k.Failures && pause < float64(longestWait); n++ {
		pause *= pauseFactor
	}
	jitter := 1 - pauseJitter + 2*pauseJitter*float64(seed>>11)/(1<<53)
	k.again = now.Add(time.Duration(min(pause*jitter, float64(longestWait))))
}

// Narrow makes the next slices smaller, and says whether only one action is left, and has had its tries.
func (k *Kind) Narrow(looked int) (blamed bool) {
	if looked > 1 {
		k.Limit, k.alone = looked/2, 0
		return false
	}
	k.Limit = 1
	k.alone++
	return k.alone > ParkAfter
}

// Pass notes a slice that succeeded, with the number of actions that it examined. If none is left,
// the search for the failing action ends.
func (k *Kind) Pass(now queue.Time, looked int) {
	if looked < k.Most() {
		k.Limit = 0
	}
	if looked > 0 {
		k.Success = now
	}
	k.Failures, k.alone, k.again, k.Err = 0, 0, 0, nil
}

// Book has all kinds, the actions that are parked, and those that are under suspicion. The
// shard's mutex guards it. It outlives a reload.
type Book struct {
	Kinds    [machine.KindCount]Kind
	Parked   map[machine.Action]*machine.Parking
	Slices   uint64 // that succeeded, since the start
	Degraded bool   // some kind fails again and again: inserts are refused

	// how often actions that are tried alone failed since their last success: schedules, large rules, letters that
	// cannot be read
	blamed map[machine.Action]int
	log    *slog.Logger // names the queue
	seed   func() uint64
}

// New is the book of a shard without trouble.
func New(log *slog.Logger, seed func() uint64) *Book {
	return &Book{Parked: map[machine.Action]*machine.Parking{}, blamed: map[machine.Action]int{}, log: log, seed: seed}
}

// Fail notes a failed slice of a kind.
func (b *Book) Fail(kind machine.Kind, err error, now queue.Time) {
	b.Kinds[kind].fail(err, now, b.seed())
}

// Done notes that actions of a kind succeeded in a slice of their own. m counts them.
func (b *Book) Done(m *machine.Machine, kind machine.Kind, now queue.Time, n int) {
	b.Kinds[kind].Pass(now, n)
	m.Stats.Acts[kind].Done += uint64(n)
}

// Slice is the work of one slice for a kind.
type Slice struct {
	Stepped         bool
	Looked, Encoded int            // actions that were looked at, and those of them that are on their way to the disk
	Last            machine.Action // that was looked at
}

// Judge records the result of a slice of a kind.
func (b *Book) Judge(kind machine.Kind, s *Slice, err error, now queue.Time) {
	k := &b.Kinds[kind]
	switch {
	case !s.Stepped:
	case err == nil && k.Limit > 0 && s.Looked > 0 && s.Encoded == 0:
		// the actions needed no commit: that says nothing about the failing one
	case err == nil:
		k.Pass(now, s.Looked)
		if s.Looked > 0 {
			b.Slices++
		}
	case s.Encoded > 0:
		b.Fail(kind, err, now)
		if !errors.Is(err, journal.ErrFull) && k.Narrow(s.Looked) { // no action is to blame for a full disk
			b.Park(s.Last, err, now)
		}
	}
}

// Assess finds out whether the shard is degraded.
func (b *Book) Assess() {
	was := b.Degraded
	b.Degraded = false
	for kind := range machine.KindCount {
		if k := &b.Kinds[kind]; !kind.Housekeeping() && k.Failures >= degradedAfter {
			b.Degraded = true
		}
	}
	if b.Degraded != was {
		b.log.Warn("the life-cycle worker's commits fail again and again, or no longer", "degraded", b.Degraded)
	}
}

// Park leaves an action alone from now on. false: there are too many already, or it is not about anything.
func (b *Book) Park(a machine.Action, err error, now queue.Time) bool {
	delete(b.blamed, a)
	if len(b.Parked) >= parkedMost || !a.About() {
		return false
	}
	k := &b.Kinds[a.Kind]
	k.Failures, k.alone, k.again = 0, 0, 0
	k.Limit = machine.TickMost / 2 // there may be more of its kind
	b.Parked[a] = &machine.Parking{Err: err, Since: now}
	b.log.Error("a life-cycle action is parked; fix the cause, then retry it", "kind", a.Kind,
		"submission", a.Submission, "index", a.Index, "rule", a.Rule, "schedule", a.Schedule, "error", err)
	return true
}

// Suspect notes that an action failed alone in its batch, and says whether it did so too often.
func (b *Book) Suspect(a machine.Action) (often bool) {
	b.blamed[a]++
	return b.blamed[a] > ParkAfter
}

// Blame notes that an action failed alone in its batch, and parks it if it did so again and again.
func (b *Book) Blame(a machine.Action, err error, now queue.Time) {
	if errors.Is(err, journal.ErrFull) {
		return // no action is to blame for that
	}
	if b.Suspect(a) {
		b.Park(a, err, now)
	}
}

// Suspected says whether an action has failed alone since its last success.
func (b *Book) Suspected(a machine.Action) bool { return b.blamed[a] > 0 }

// Clear notes that an action succeeded.
func (b *Book) Clear(a machine.Action) { delete(b.blamed, a) }

// Unpark lets the worker examine a parked action again, because an operator changed the object of the
// action.
func (b *Book) Unpark(m *machine.Machine, a machine.Action) {
	if b.Parked[a] != nil {
		delete(b.Parked, a)
		m.LookAgain(a)
	}
}

// Retry lets the next pass try all parked actions again, and says how many. Pauses after failures end.
func (b *Book) Retry(m *machine.Machine) (n int) {
	for a := range b.Parked {
		delete(b.Parked, a)
		n++
		m.LookAgain(a)
	}
	for kind := range b.Kinds {
		b.Kinds[kind].again = 0
	}
	return n
}

// API is the actions that are parked, as JSON carries them: the oldest first.
func (b *Book) API() []api.ParkedAction {
	list := []api.ParkedAction{}
	for _, a := range slices.SortedFunc(maps.Keys(b.Parked), func(x, y machine.Action) int {
		return cmp.Or(cmp.Compare(b.Parked[x].Since, b.Parked[y].Since), strings.Compare(fmt.Sprint(x), fmt.Sprint(y)))
	}) {
		p := b.Parked[a]
		one := api.ParkedAction{Kind: a.Kind.String(), Schedule: a.Schedule, Error: p.Err.Error(), Since: p.Since.API()}
		switch {
		case a.Rule != 0:
			one.Rule = strconv.FormatUint(uint64(a.Rule), 10)
		case a.Submission != 0:
			one.Submission = a.Submission.String()
		}
		if a.Kind.OfChunks() {
			one.Index = &a.Index
		}
		list = append(list, one)
	}
	return list
}
