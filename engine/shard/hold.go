package shard

import (
	"time"

	"github.com/quern-queue/quern/engine/locks"
	"github.com/quern-queue/quern/engine/shard/shell"
)

// holdLock is the shard's mutex. A measurement is told how long each hold of it took: that
// is what everybody else had to wait for.
type holdLock struct {
	locks.Mutex[shell.InMachine]
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
