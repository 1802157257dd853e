//go:build linux

package main

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// latencies are how long calls took.
type latencies struct {
	mu   sync.Mutex
	list []time.Duration
}

// time runs a call and notes how long it took.
func (l *latencies) time(call func()) {
	began := time.Now()
	call()
	took := time.Since(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, took)
}

// at is the quantile q of the noted times, 0 when there are none.
func (l *latencies) at(q float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 {
		return 0
	}
	slices.Sort(l.list)
	return l.list[min(int(q*float64(len(l.list))), len(l.list)-1)]
}

// report says what consumers noticed of an attack.
func report(t *testing.T, before, during, through *latencies) {
	t.Helper()
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"longest", 1}} {
		a, b := before.at(q.at), during.at(q.at)
		t.Logf("a reserve, %s: %v before the attack, %v during it, %.2f times as long; through a hostile plugin %v", q.name, a.Round(time.Microsecond), b.Round(time.Microsecond), float64(b)/float64(max(a, 1)), through.at(q.at).Round(time.Microsecond))
	}
	t.Logf("%d reserves before, %d during, %d through hostile plugins; test, server and compiler share the cores", len(before.list), len(during.list), len(through.list))
}
