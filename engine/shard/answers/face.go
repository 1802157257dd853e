// Package answers is the part of a shard that fills the answers of reserves, without the
// mutex. If the content of one chunk cannot be read from the disk, the others still go out.
package answers

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/quern-queue/quern/engine/durations"
	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// Answers fill the answers of reserves.
type Answers struct {
	shell.Shell
	Waits  *measure.Histogram // from a chunk's insert, or its run_at, to its first reservation; nil: no one measures
	Lately *durations.Kept    // the same lately, also by value; nil: no one measures
	Bytes  Bytes
	queue  shell.Queue
	key    reserver.Key
	rules  Rules

	Owned func() error // why no answer may be given any more; nil: it may
}

// Bytes reads the contents and the attachment of a submission.
type Bytes interface {
	Chunks(ctx context.Context, r *machine.Record, indexes []uint32, most int) ([][]byte, error)
	Attachment(ctx context.Context, r *machine.Record) ([]byte, error)
}

// Rules are the rules of a shard.
type Rules interface {
	Set(rule queue.Rule, allow func(now *queue.Rule) error, acts ...queue.Act) (set queue.Rule, created bool, err error)
}

// New are the answers of a shard, whose tokens are signed with the key.
func New(s shell.Shell, q shell.Queue, key reserver.Key, rules Rules, waits *measure.Histogram,
	lately *durations.Kept) *Answers {
	return &Answers{Shell: s, Waits: waits, Lately: lately, queue: q, key: key, rules: rules}
}

// ErrAgain tells Reserve to retry, because the state has changed since it chose the chunks.
var ErrAgain = errors.New("shard: reserve again")

// Fill makes the answer of a reserve: tokens are signed and contents gathered outside the
// mutex. When contents cannot be read the chunks are given back and the error is returned, unless they are damaged:
// such chunks become dead letters, and the others go out. Chunks that do not fit into the answer are given back too: no
// try is counted, and they are ready for the next call. `answered` is how many bytes of the answer other shards of the
// queue have filled.
func (a *Answers) Fill(ctx context.Context, picks []machine.Pick, dst []queue.Reservation,
	answered int) (machine.Reserved, error) {
	from := len(dst)
	var arena []byte
	for i := range picks {
		p := &picks[i]
		p.Token.MAC = a.key.MAC(&p.Token)
		d := p.R.Details()
		res := queue.Reservation{Token: p.Token, Attempt: p.Attempt, Deadline: p.Deadline, Meta: p.Meta,
			Priority: p.Priority, Trace: d.Trace, Ready: max(p.Ready, p.R.ID.Time(), d.RunAt)}
		if arena == nil {
			arena = make([]byte, 0, len(picks)*(len(p.R.Prefix)+len(d.Template)+12))
		}
		if !p.R.Inline {
			start := len(arena)
			arena = machine.AppendContent(arena, p.R, p.Token.Index)
			res.Content = queue.Content{Bytes: arena[start:len(arena):len(arena)], IsKey: d.Template == ""}
		}
		dst = append(dst, res)
	}
	fit, err := a.read(ctx, picks, answered, dst[from:])
	if err == nil && a.Owned != nil {
		err = a.Owned()
	}
	if err != nil && IsDamage(err) {
		return a.withoutDamaged(ctx, picks, dst[:from], answered)
	} else if err != nil {
		a.giveBack(picks)
		return machine.Reserved{Reservations: dst[:from]}, err
	}
	if fit < len(picks) {
		a.giveBack(picks[fit:])
		picks, dst = picks[:fit], dst[:from+fit]
	}
	a.waited(picks)
	return machine.Reserved{Reservations: dst}, nil
}

// giveBack returns chunks that no one will get.
func (a *Answers) giveBack(picks []machine.Pick) {
	now := a.Now()
	a.Look(func(m *machine.Machine) {
		m.Undo(picks)
		a.Wake(now)
	})
}

// waited measures how long the chunks of an answer waited for their first reservation.
func (a *Answers) waited(picks []machine.Pick) {
	submissions, slowest := 0, time.Duration(0)
	for first, n := range firstTries(picks) {
		took := first.Waited()
		a.Waits.Observe(took.Seconds(), n)
		submissions, slowest = submissions+1, max(slowest, took)
	}
	if a.Lately.Passes(submissions, slowest) {
		return
	}
	for first, n := range firstTries(picks) {
		a.Lately.Wait(first.Meta, first.Waited(), n, first.At)
	}
}

// firstTries are the chunks of an answer that were reserved for the first time. Chunks of one submission waited equally
// long: it yields the first of their picks, and their number.
func firstTries(picks []machine.Pick) iter.Seq2[*machine.Pick, uint64] {
	return func(yield func(*machine.Pick, uint64) bool) {
		for i := 0; i < len(picks); {
			first, n := &picks[i], uint64(0)
			for ; i < len(picks) && picks[i].R == first.R && picks[i].At == first.At; i++ {
				if picks[i].Attempt == 1 {
					n++
				}
			}
			if n > 0 && !yield(first, n) {
				return
			}
		}
	}
}
