package host

import (
	"errors"
	"sync"
)

// ErrMemory is the error of a sandbox for which there is no memory left. That is not the guest's fault.
var ErrMemory = errors.New("host: all plugins together have the memory that they may have")

// Memory is what the sandboxes of many versions may have together. Over its limit the idle sandbox that was used longest ago goes, of
// whichever version it is, until there is room; what is in use stays. Make it with NewMemory.
type Memory struct {
	most int64

	mu       sync.Mutex
	used     int64
	denied   uint64
	versions map[*Version]struct{}
}

// NewMemory is a budget of so many bytes.
func NewMemory(most int64) *Memory {
	return &Memory{most: most, versions: map[*Version]struct{}{}}
}

// Use says how many bytes sandboxes have now, how many they may have, and how often one was refused some.
func (m *Memory) Use() (used, most int64, denied uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used, m.most, m.denied
}

// take counts bytes that someone is about to have; false says that there is no room, whatever is idle.
func (m *Memory) take(bytes int64) bool {
	if m == nil {
		return true
	}
	for {
		m.mu.Lock()
		if m.used+bytes <= m.most {
			m.used += bytes
			m.mu.Unlock()
			return true
		}
		idle := m.idlest()
		if idle == nil {
			m.denied++
			m.mu.Unlock()
			return false
		}
		m.mu.Unlock()
		idle.shrink()
	}
}

func (m *Memory) give(bytes int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= bytes
}

// idlest is the version whose idle sandbox was used longest ago. m.mu is held.
func (m *Memory) idlest() (found *Version) {
	oldest, some := int64(0), false
	for v := range m.versions {
		if since, idle := v.pool.idleSince(); idle && (!some || int64(since) < oldest) {
			found, oldest, some = v, int64(since), true
		}
	}
	return found
}

func (m *Memory) enter(v *Version) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[v] = struct{}{}
}

func (m *Memory) leave(v *Version) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.versions, v)
}

// shrink closes the idle sandbox that was used longest ago. A version that is closing frees its own.
func (v *Version) shrink() {
	if !v.enter() {
		v.options.Memory.leave(v)
		return
	}
	defer v.leave()
	if i := v.pool.evict(); i != nil {
		i.close()
	}
}
