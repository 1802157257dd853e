package host

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/quern-queue/quern/wasm/compile"
)

// ErrMemory is the error of a sandbox, or of compiled code, for which there is no memory left. That is not the guest's fault.
var ErrMemory = compile.ErrNoRoom

// Memory is the budget of the sandboxes and the code of many versions together. Over its limit the idle sandbox that was used longest ago
// goes, of whichever version it is, or a version without a sandbox that no one needs, until there is room. Sandboxes and code in use
// stay. Make it with NewMemory.
type Memory struct {
	mu       sync.Mutex
	use      MemoryUse
	versions map[*Version]struct{}
}

// MemoryUse is the state of a Memory.
type MemoryUse struct {
	Bytes     int64 // in use, of code too
	CodeBytes int64 // of them, of compiled code
	Most      int64
	Denied    uint64 // times that something found no room
}

// NewMemory is a budget of this many bytes.
func NewMemory(most int64) *Memory {
	return &Memory{use: MemoryUse{Most: most}, versions: map[*Version]struct{}{}}
}

// Use says how much is in use now, and how much may be.
func (m *Memory) Use() MemoryUse {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.use
}

// TakeCode implements compile.Budget.
func (m *Memory) TakeCode(bytes int64) bool { return m.count(bytes, bytes) }

// GiveCode implements compile.Budget.
func (m *Memory) GiveCode(bytes int64) { m.count(-bytes, -bytes) }

// take counts bytes that a sandbox is about to have. It returns false if there is no room, whatever is idle.
func (m *Memory) take(bytes int64) bool { return m == nil || m.count(bytes, 0) }

func (m *Memory) give(bytes int64) {
	if m != nil {
		m.count(-bytes, 0)
	}
}

// count counts bytes, code among them, for which it makes room first.
func (m *Memory) count(bytes, code int64) bool {
	for {
		m.mu.Lock()
		if bytes < 0 || m.use.Bytes+bytes <= m.use.Most {
			m.use.Bytes += bytes
			m.use.CodeBytes += code
			m.mu.Unlock()
			return true
		}
		m.mu.Unlock()
		if !m.shrink() {
			m.mu.Lock()
			m.use.Denied++
			m.mu.Unlock()
			return false
		}
	}
}

// shrink frees one sandbox, or one version without any: the idle one that was used longest ago. It returns false if nothing can go.
func (m *Memory) shrink() bool {
	type idle struct {
		version *Version
		since   time.Duration
	}
	var list []idle
	m.mu.Lock()
	for v := range m.versions {
		if since, found := v.pool.idleSince(); found {
			list = append(list, idle{v, since})
		}
	}
	m.mu.Unlock()
	slices.SortFunc(list, func(a, b idle) int { return cmp.Compare(a.since, b.since) })
	return slices.ContainsFunc(list, func(one idle) bool { return one.version.shrink() })
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

// shrink closes the idle sandbox that was used longest ago. Where there is none it has the version closed, if no one needs that.
func (v *Version) shrink() bool {
	if !v.enter() {
		return false // it is closing and frees its own
	}
	i := v.pool.evict()
	if i != nil {
		i.close()
	}
	v.leave()
	return i != nil || v.pool.size() == 0 && v.options.Needless != nil && v.options.Needless()
}
