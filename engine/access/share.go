package access

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Share lists the things that one token brought and that still exist, such as its open submissions. Room compares the list with what exists
// and forgets the rest, so no one has to count down. It begins empty with the server. It is safe for concurrent use.
type Share[K comparable] struct {
	mu   sync.Mutex
	keys []K
	has  map[K]struct{} // the same
	next int            // of keys, to be looked at
}

// A Share looks at this many of its keys when it is asked for room: lookAlways in any case, to stay small, and up to lookFull when it is
// full.
const (
	lookAlways = 2
	lookFull   = 1000
)

// Room says whether n more fit below most; 0 is any number. Requests that run at the same time may together go beyond it by their number.
// there says whether a key still exists; it must not call the Share.
func (s *Share[K]) Room(n, most int, there func(K) bool) bool {
	if most == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for looked, all := 0, len(s.keys); looked < min(all, lookFull); looked++ {
		if looked >= lookAlways && len(s.keys)+n <= most {
			break
		}
		s.look(there)
	}
	return len(s.keys)+n <= most
}

// look forgets the next key if it is gone. The mutex is held.
func (s *Share[K]) look(there func(K) bool) {
	if s.next >= len(s.keys) {
		s.next = 0
	}
	k := s.keys[s.next]
	if there(k) {
		s.next++
		return
	}
	last := len(s.keys) - 1
	s.keys[s.next] = s.keys[last]
	s.keys = s.keys[:last]
	delete(s.has, k)
}

// Add notes that the token brought k. To bring it twice is to bring it once.
func (s *Share[K]) Add(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.has[k]; known {
		return
	}
	if s.has == nil {
		s.has = map[K]struct{}{}
	}
	s.has[k] = struct{}{}
	s.keys = append(s.keys, k)
}

// Has says whether the token brought k.
func (s *Share[K]) Has(k K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.has[k]
	return known
}

// How many reads of one token run at the same time, and how many more may wait.
const (
	readsAtOnce  = 2
	readsWaiting = 100

	// longestRest bounds how long a place rests: one read that took long must not keep the token out for as long again.
	longestRest = time.Second
)

// Turns share the processor between tokens. Two reads of a token, such as lists, run at a time, and each of the two places rests for as
// long as its read took. So the reads of a token take the time of one core at most, however many clients it has. A client that sends one
// request after another never waits.
type Turns struct {
	once    sync.Once
	places  chan time.Duration // of each free place, the time from which it may be used
	waiting atomic.Int32
}

// Waiting is how many reads wait for a place.
func (t *Turns) Waiting() int { return int(t.waiting.Load()) }

// Take waits for a place. It returns false when too many wait, or with the error of ctx. now is counted from any start. A caller that got a
// place must call leave.
func (t *Turns) Take(ctx context.Context, now func() time.Duration) (leave func(), ok bool, err error) {
	t.once.Do(func() {
		t.places = make(chan time.Duration, readsAtOnce)
		for range readsAtOnce {
			t.places <- 0
		}
	})
	if t.waiting.Add(1) > readsWaiting {
		t.waiting.Add(-1)
		return nil, false, nil
	}
	defer t.waiting.Add(-1)
	var from time.Duration
	select {
	case from = <-t.places: // also for a caller that is gone: that is for the read to notice
	default:
		select {
		case from = <-t.places:
		case <-ctx.Done():
			return nil, true, ctx.Err()
		}
	}
	if rest := min(from-now(), longestRest); rest > 0 {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			t.places <- from
			return nil, true, ctx.Err()
		}
	}
	began := now()
	return func() {
		ended := now()
		t.places <- ended + min(max(0, ended-began), longestRest)
	}, true, nil
}
