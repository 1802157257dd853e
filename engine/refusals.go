package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// A client that is refused again and again must not fill the disk. The first sixty refused acts of a token get an entry each. From then on
// there is one entry a minute, for the latest, with the number of those since the previous entry that were left out. So the entries and the
// numbers in them add up to all refused acts.
const (
	refusedEvery = time.Minute
	refusedBurst = 60 * refusedEvery
)

// Refusal is an act that the caller's token does not allow.
type Refusal struct {
	Action, Queue, Target string // as in queue.Act
	Code                  queue.Code
	Detail                string // what the caller was told
}

// refusals writes refused acts to the audit log. Those without an entry are counted in memory: kill -9 loses the count.
type refusals struct {
	now   func() time.Time
	began time.Time
	log   *slog.Logger
	put   func(*queue.Act) error // writes an entry, durably
	room  func() error           // an error on a full disk: entries wait, as room is made for changes and not for what was refused

	mu sync.Mutex
	by map[string]*refused // by the name of the token
}

// refused is the state of one token.
type refused struct {
	pace      access.Pace
	unwritten int // acts since the last entry
	latest    queue.Act
	reason    refusedFor
}

// refusedFor is the After of a refused act, which changed nothing: the reason.
type refusedFor struct {
	Code    queue.Code `json:"code"`
	Detail  string     `json:"detail"`
	LeftOut int        `json:"left_out,omitempty"` // refused acts of this token since the previous entry that have none
}

// RecordRefused writes to the audit log that the caller in ctx was refused, durably. When the token has used up its
// entries, or the log cannot be written, the act is counted and written later: the caller is refused in any case.
func (t *Tokens) RecordRefused(ctx context.Context, r Refusal) {
	act := actOf(ctx, queue.At(t.now()), "", r.Action, r.Queue, r.Target)
	act.Outcome = queue.ActRefused
	t.refusals.record(act, refusedFor{Code: r.Code, Detail: r.Detail})
}

func (r *refusals) record(act queue.Act, reason refusedFor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.by[act.Actor]
	if of == nil {
		of = new(refused)
		r.by[act.Actor] = of
	}
	of.unwritten++
	of.latest, of.reason = act, reason
	r.write(of, false)
}

// writeAll writes the entries that are due; with atOnce, when the engine closes, all of them.
func (r *refusals) writeAll(atOnce bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, of := range r.by {
		r.write(of, atOnce)
		if of.unwritten == 0 && of.pace.Spent(r.now().Sub(r.began)) {
			delete(r.by, name)
		}
	}
}

// write writes one entry for the acts of a token that have none, if it may have one now. The caller holds r.mu.
func (r *refusals) write(of *refused, atOnce bool) {
	now := r.now()
	if of.unwritten == 0 || !atOnce && (r.room() != nil || of.pace.Take(now.Sub(r.began), refusedEvery, refusedBurst) > 0) {
		return
	}
	of.latest.At = queue.At(now) // a late entry goes to the end of the log, which is where streams read
	of.reason.LeftOut = of.unwritten - 1
	of.latest.Change(nil, of.reason)
	if err := r.put(&of.latest); err != nil {
		r.log.Error("a refused act cannot be written to the audit log; it is tried again",
			"actor", of.latest.Actor, "action", of.latest.Action, "error", err)
		return
	}
	of.unwritten = 0
}
