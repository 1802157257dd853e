package plugins

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/wasm/host"
	"github.com/quern-queue/quern/wasm/instrument"
	"github.com/quern-queue/quern/wasm/manifest"
)

// useKey names a version with a configuration in canonical form.
type useKey struct {
	sum    queue.SHA256
	config string
}

func keyOf(u *queue.PluginUse) useKey { return useKey{u.SHA256, string(u.Config)} }

// use is a version with a configuration, open.
type use struct {
	key     useKey
	version *version
	host    *host.Version
	code    *code
	breaker breaker
	asked   atomic.Int64 // when it was last asked for, in nanoseconds of the catalogue's clock
	running atomic.Int32 // batches in it or waiting for an instance
	pages   atomic.Uint32
	fuel    atomic.Int64 // of the last batch
	samples samples

	needless func() bool // see host.Options
}

// is says whether an operator chose this use.
func (u *use) is(chosen *queue.PluginUse) bool {
	return u.key.sum == chosen.SHA256 && u.key.config == string(chosen.Config)
}

// uses are all that are open.
type uses struct {
	mu   sync.Mutex
	open map[useKey]*use
}

func (u *uses) find(key useKey) *use {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.open[key]
}

// share gives the code of a version that is open with another configuration, for one more user; nil: it is not.
func (u *uses) share(sum queue.SHA256) *code {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, one := range u.open {
		if key.sum == sum && one.code.compiled.Share() {
			return one.code
		}
	}
	return nil
}

// retire takes one out that no one is in, and that need not be kept.
func (u *uses) retire(one *use, keeps func(*use) bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open[one.key] != one || keeps(one) || !one.host.Retire() {
		return false
	}
	delete(u.open, one.key)
	return true
}

// all lists what is open of a plugin.
func (u *uses) all(name string) (list []*use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.open {
		if one.version.Name == name {
			list = append(list, one)
		}
	}
	return list
}

// stale takes out what has not been asked for within linger and need not be kept.
func (u *uses) stale(now time.Time, linger time.Duration, keeps func(*use) bool) (list []*use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, one := range u.open {
		if now.UnixNano()-one.asked.Load() >= int64(linger) && !keeps(one) {
			delete(u.open, key)
			list = append(list, one)
		}
	}
	return list
}

// oldest takes out the one that was asked for longest ago if there are more than most that need not be kept.
func (u *uses) oldest(most int, keeps func(*use) bool) *use {
	u.mu.Lock()
	defer u.mu.Unlock()
	var found *use
	n := 0
	for _, one := range u.open {
		if keeps(one) {
			continue
		}
		n++
		if found == nil || one.asked.Load() < found.asked.Load() {
			found = one
		}
	}
	if n <= most {
		return nil
	}
	delete(u.open, found.key)
	return found
}

// remove takes one out.
func (u *uses) remove(sum queue.SHA256) (list []*use) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, one := range u.open {
		if key.sum == sum {
			delete(u.open, key)
			list = append(list, one)
		}
	}
	return list
}

func (u *uses) closeAll() error {
	u.mu.Lock()
	all := u.open
	u.open = map[useKey]*use{}
	u.mu.Unlock()
	var errs []error
	for _, one := range all {
		errs = append(errs, one.host.Close())
	}
	return errors.Join(errs...)
}

// rewriting is how a module is instrumented: the slice and depth that the host arms, and the memory that the manifest asks for.
func (l *Limits) rewriting(m *manifest.Manifest) instrument.Options {
	return instrument.Options{
		Slice: l.Host.Slice, Depth: l.Host.Depth, MemoryPages: uint32(min(m.Pages, l.Scan.MemoryPages)),
		TableEntries: uint32(l.Scan.TableEntries),
	}
}
