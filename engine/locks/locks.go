// Package locks has mutexes that know their place in an order, so that no two goroutines can wait for each other. In tests under the
// race detector that call Assert, a goroutine that takes one out of order panics and says what it holds; elsewhere they are those of sync.
package locks

import "sync"

// Place is the place of a mutex in the order: a goroutine takes the mutex with the lowest order first. An empty type implements it.
type Place interface {
	Place() (order int, name string)
}

// Mutex is a sync.Mutex with a place.
type Mutex[P Place] struct{ sync.Mutex }

// RWMutex is a sync.RWMutex with a place.
type RWMutex[P Place] struct{ sync.RWMutex }
