//go:build race

package locks

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// asserted is set before the first lock is taken. To find out which goroutine takes one costs microseconds.
var asserted atomic.Bool

// Assert has the order checked in this process. It is to be called by an init function of tests.
func Assert() { asserted.Store(true) }

// taken has the locks that each goroutine holds, by its number, in the order in which it took them.
var taken sync.Map

type holding struct {
	lock  any
	order int
	name  string
}

// enter notes that the goroutine is about to take a lock.
func enter[P Place](lock any) {
	if !asserted.Load() {
		return
	}
	var place P
	order, name := place.Place()
	id := goroutine()
	held, _ := taken.Load(id)
	list, _ := held.([]holding)
	for _, h := range list {
		switch {
		case h.lock == lock:
			panic("locks: " + name + " is taken by a goroutine that holds it")
		case h.order >= order:
			panic(fmt.Sprintf("locks: %s, which has place %d, is taken by a goroutine that holds %s, which has place %d",
				name, order, h.name, h.order))
		}
	}
	taken.Store(id, append(slices.Clone(list), holding{lock, order, name}))
}

// leave notes that the goroutine gives a lock back, in any order.
func leave(lock any) {
	if !asserted.Load() {
		return
	}
	id := goroutine()
	held, _ := taken.Load(id)
	list, _ := held.([]holding)
	at := slices.IndexFunc(list, func(h holding) bool { return h.lock == lock })
	switch {
	case at < 0:
		panic("locks: a lock is given back by a goroutine that does not hold it")
	case len(list) == 1:
		taken.Delete(id)
	default:
		taken.Store(id, slices.Delete(slices.Clone(list), at, at+1))
	}
}

// goroutine is the number of the one that calls, as stack traces begin with it.
func goroutine() int {
	var trace [64]byte
	number, _, _ := bytes.Cut(bytes.TrimPrefix(trace[:runtime.Stack(trace[:], false)], []byte("goroutine ")), []byte(" "))
	id, err := strconv.Atoi(string(number))
	if err != nil {
		panic("locks: the stack trace of a goroutine does not begin with its number: " + err.Error())
	}
	return id
}

// Lock takes the mutex.
func (m *Mutex[P]) Lock() {
	enter[P](m)
	m.Mutex.Lock()
}

// Unlock gives it back.
func (m *Mutex[P]) Unlock() {
	leave(m)
	m.Mutex.Unlock()
}

// Lock takes the mutex for writing.
func (m *RWMutex[P]) Lock() {
	enter[P](m)
	m.RWMutex.Lock()
}

// Unlock gives it back.
func (m *RWMutex[P]) Unlock() {
	leave(m)
	m.RWMutex.Unlock()
}

// RLock takes the mutex for reading. To take it twice is a mistake too: between the two, a writer may begin to wait.
func (m *RWMutex[P]) RLock() {
	enter[P](m)
	m.RWMutex.RLock()
}

// RUnlock gives it back.
func (m *RWMutex[P]) RUnlock() {
	leave(m)
	m.RWMutex.RUnlock()
}

// RLocker has its Lock and Unlock take the mutex for reading, and give it back.
func (m *RWMutex[P]) RLocker() sync.Locker { return reading[P]{m} }

type reading[P Place] struct{ mutex *RWMutex[P] }

// Lock takes the mutex for reading.
func (r reading[P]) Lock() { r.mutex.RLock() }

// Unlock gives it back.
func (r reading[P]) Unlock() { r.mutex.RUnlock() }
