package shard

import (
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/shard/commit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// change calls fn with the mutex held, unless the shard cannot work, and then waits for the commit that fn returns: of the batch that it
// encoded into, or of what it saw that is not on the disk yet (pending). nil: there is nothing to wait for.
func (p *writer) change(fn func(m *machine.Machine, now queue.Time) (*commit.Commit, error)) error {
	s := p.s
	now := s.now()
	var rests *commit.Commit
	var err error
	s.mu.held(func() {
		if err = s.usable(); err == nil {
			rests, err = fn(s.m, now)
		}
	})
	if err != nil {
		return err
	}
	return p.wait(commit.Set{First: rests})
}
