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

// Shell is what a part can do with its shard. It is safe for concurrent use. A function that is called
// with the mutex held must not block, and must not call the shell again, except for Seal, Wake and Now.
type Shell interface {
	// Look calls fn with the mutex held, also while the shard cannot work: then fn sees
	// the state as it was. fn changes nothing durable.
	Look(fn func(m *machine.Machine))
	// Locked calls fn with the mutex held, and returns its error. While the shard cannot
	// work it returns why, and fn is not called.
	Locked(fn func(m *machine.Machine, now queue.Time) error) error
	// Begin is Locked for what encodes ops. It returns the youngest commit that fn's ops,
	// or anything that fn saw, may be in; nil: all of that is on the disk. The commit is
	// on its way then; the caller waits for it, or passes it on to someone who does.
	Begin(fn func(m *machine.Machine, now queue.Time) error) (*commit.Commit, error)
	// Wait returns when all of these commits are on the disk, or one has failed.
	Wait(waits commit.Set) error
	// Seal ends the open batch: what is encoded before it and what is encoded behind it do not
	// share a commit. So what may fail by itself takes nothing else with it. The mutex is held.
	Seal()
	// Wake hands what became available to reserves that wait for it. The mutex is held.
	Wake(now queue.Time)
	// Distrust has the shard reload from its journal: what a function that broke off may have
	// left half changed goes with the state. The open batch is refused, and with it what
	// others have in it. The mutex is held. The caller waits for the commit, which fails.
	Distrust(cause error, now queue.Time) *commit.Commit
	// Store is where checkpoint rows, contents and history are. It is not used with the
	// mutex held, but for what is in its memory.
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

// Queue is what a part says of its shard in answers and in the log.
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
