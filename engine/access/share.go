package access

import "sync"

// Share is what one token brought that is still there, such as its open submissions. It is held against what there is
// whenever room is asked for: what went counts no more, and nothing has to be counted down. It begins empty with the
// server. It is safe for concurrent use.
type Share[K comparable] struct {
	mu   sync.Mutex
	keys []K
	has  map[K]struct{} // the same
	next int            // of keys, to be looked at
}

// How many of its own a Share looks at when it is asked for room: so many in any case, so that it keeps small, and more when it is full.
const (
	lookAlways = 2
	lookFull   = 1000
)

// Room says whether n more fit below most; 0 is any number. Requests that run at the same time may together go beyond it by their number.
// there says what still exists; it must not ask the Share.
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
