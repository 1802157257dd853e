package shard

import (
	"sync"
	"time"
)

// holdLock is the shard's mutex. Whoever measures is told how long each hold of it took: that is what everybody else had to
// wait for.
type holdLock struct {
	sync.Mutex
	now  func() time.Time
	told func(time.Duration) // nil: nobody measures
	at   time.Time
}

func (l *holdLock) Lock() {
	l.Mutex.Lock()
	if l.told != nil {
		l.at = l.now()
	}
}

func (l *holdLock) Unlock() {
	if l.told != nil {
		l.told(l.now().Sub(l.at))
	}
	l.Mutex.Unlock()
}
