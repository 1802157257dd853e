// Package shell is the interface through which a part uses its shard: the mutex, the group
// commit, the store and the clock. A part has its state and its calls in one folder, and
// reaches the rest of the shard only through this interface.
package shell

import (
	"log/slog"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// Shell has the functions of a shard that its parts can use. It is safe for concurrent use. A function that is called
// with the mutex held must not block, and must not call the shell again, except for Seal, Wake and Now.
type Shell interface {
	// Look calls fn with the mutex held, also while the shard cannot work: then fn sees
	// the state as it was. fn changes nothing durable.
	Look(fn func(m *machine.Machine))
	// Locked calls fn with the mutex held, and returns its error. While the shard cannot
	// work it returns why, and fn is not called.
	Locked(fn func(m *machine.Machine, now queue.Time) error) error
	// Begin is Locked for a function that encodes ops. It returns the youngest commit that fn's ops, or anything that
	// fn saw, may be in; nil: all of that is on the disk. The commit is then on its way; the caller waits for it, or
	// passes it on to code that does.
	Begin(fn func(m *machine.Machine, now queue.Time) error) (*commit.Commit, error)
	// Wait returns when all of these commits are on the disk, or one has failed.
	Wait(waits commit.Set) error
	// Seal ends the open batch: ops before and behind it do not share a commit. So an action that may fail by itself
	// makes no other op fail. The mutex is held.
	Seal()
	// Wake hands available chunks to reserves that wait for them. The mutex is held.
	Wake(now queue.Time)
	// Distrust makes the shard reload from its journal, after a function broke off and may have left the state half
	// changed. The open batch is refused, with the ops of all callers. The mutex is held. The caller waits for the
	// commit, which fails.
	Distrust(cause error, now queue.Time) *commit.Commit
	// Store is where checkpoint rows, contents and history are. With the mutex held, only data in its memory may be
	// used.
	Store() *store.Store
	// Now is the time that commands get. It may be set back.
	Now() queue.Time
}

// Change is Begin and Wait. When it returns nil, the decisions of fn are durable, and so is the
// state that they were based on.
func Change(s Shell, fn func(m *machine.Machine, now queue.Time) error) error {
	c, err := s.Begin(fn)
	if err != nil {
		return err
	}
	return s.Wait(commit.Set{First: c})
}

// Queue has the name of the shard's queue for answers and the log.
type Queue struct {
	Name   string
	Logger *slog.Logger
	Seed   func() uint64
}

// Door is a part's way to its shard and to its own state.
type Door[P any] struct {
	Shell
	Queue Queue
	// Part is the state. A reload makes a new one, so it is asked for in each hold of the
	// mutex, and not kept beyond it.
	Part func() P
}
