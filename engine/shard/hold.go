package shard

import (
	"time"

	"github.com/quern-queue/quern/engine/locks"
)

// The places of a shard's locks: a goroutine that takes several takes them in this order, which tests here and in engine assert.
type (
	inPass     struct{} // Worker.pass: one pass of the life-cycle worker at a time
	inStretch  struct{} // aging.mu: one stretch of dead letters that are too old at a time
	inHistory  struct{} // Shard.aging: the history loses or changes rows
	inOrdering struct{} // Shard.ordering: a rule is set or lifted
	inRegroup  struct{} // DeadLetters.regroup: letters are looked at for the sake of their groups
	inApplying struct{} // Shard.applying: a batch is applied, or a checkpoint takes rows
	inMachine  struct{} // Shard.mu: the machine
)

func (inPass) Place() (order int, name string)     { return 1, "Worker.pass" }
func (inStretch) Place() (order int, name string)  { return 2, "aging.mu" }
func (inHistory) Place() (order int, name string)  { return 3, "Shard.aging" }
func (inOrdering) Place() (order int, name string) { return 4, "Shard.ordering" }
func (inRegroup) Place() (order int, name string)  { return 5, "DeadLetters.regroup" }
func (inApplying) Place() (order int, name string) { return 6, "Shard.applying" }
func (inMachine) Place() (order int, name string)  { return 7, "Shard.mu" }

// holdLock is the shard's mutex. A measurement is told how long each hold of it took: that is what everybody else had to
// wait for.
type holdLock struct {
	locks.Mutex[inMachine]
	now    func() time.Time
	report func(time.Duration) // nil: no one measures
	at     time.Time
}

func (l *holdLock) Lock() {
	l.Mutex.Lock()
	if l.report != nil {
		l.at = l.now()
	}
}

func (l *holdLock) Unlock() {
	if l.report != nil {
		l.report(l.now().Sub(l.at))
	}
	l.Mutex.Unlock()
}

// held calls fn with the mutex held.
func (l *holdLock) held(fn func()) {
	l.Lock()
	defer l.Unlock()
	fn()
}
