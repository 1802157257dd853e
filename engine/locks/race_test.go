//go:build race

package locks

import (
	"strings"
	"testing"
)

func init() { Assert() }

type (
	outer struct{}
	inner struct{}
)

func (outer) Place() (order int, name string) { return 1, "outer" }
func (inner) Place() (order int, name string) { return 2, "inner" }

// Locks that are taken in their order, and given back in any, work like those of sync. Taken out of order or twice, or given back by
// another goroutine, they panic.
func TestOrderIsHeld(t *testing.T) {
	t.Parallel()
	var a, other Mutex[outer]
	var b RWMutex[inner]
	for name, c := range map[string]struct {
		says string // "": nothing
		fn   func()
	}{
		"in order": {"", func() { a.Lock(); b.Lock(); a.Unlock(); b.Unlock() }},
		"again": {"", func() {
			a.Lock()
			a.Unlock()
			a.Lock()
			b.RLock()
			b.RUnlock()
			a.Unlock()
		}},
		"out of order":     {"outer, which has place 1, is taken by a goroutine that holds inner", func() { b.RLock(); defer b.RUnlock(); a.Lock() }},
		"two of one place": {"outer, which has place 1, is taken by a goroutine that holds outer", func() { a.Lock(); defer a.Unlock(); other.Lock() }},
		"twice":            {"is taken by a goroutine that holds it", func() { a.Lock(); defer a.Unlock(); a.Lock() }},
		"read by a locker": {"inner, which has place 2", func() {
			l := b.RLocker()
			l.Lock()
			l.Unlock()
			l.Lock()
			defer l.Unlock()
			a.Lock()
		}},
		"read twice":        {"is taken by a goroutine that holds it", func() { b.RLock(); defer b.RUnlock(); b.RLock() }},
		"given back by two": {"does not hold it", func() { a.Lock(); a.Unlock(); a.Unlock() }},
	} {
		said := panicked(c.fn)
		if c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%s: got %q, want %q", name, said, c.says)
		}
	}
	if n := count(); n != 0 {
		t.Errorf("%d goroutines are remembered to hold something, want 0", n)
	}
}

func panicked(fn func()) (said string) {
	defer func() {
		if p := recover(); p != nil {
			said = p.(string)
		}
	}()
	fn()
	return ""
}

func count() (n int) {
	taken.Range(func(any, any) bool { n++; return true })
	return n
}
