package plugins

import (
	"context"
	"time"

	"github.com/quern-queue/quern/wasm/compile"
)

// Sweep removes the compiled code that no version has any more: of versions that were deleted while their module could
// not be read, of modules that this release rewrites otherwise than the one before, and of another version of the
// engine. What was loaded since New is left alone, and so is the code of every version of the catalogue. It reads and
// rewrites the modules of versions that are not open, with a pause after each, until everything in the cache has found
// its owner. It returns how many entries it removed and how many bytes they had.
func (c *Catalogue) Sweep(ctx context.Context) (removed int, bytes int64, err error) {
	if _, err := c.known.opened(); err != nil { // no plugin is known yet
		return 0, 0, err
	}
	entries, err := c.open.compiler.Unclaimed()
	if err != nil || len(entries) == 0 {
		return 0, 0, err
	}
	ownerless := map[string]compile.Entry{}
	for _, e := range entries {
		ownerless[e.Key] = e
	}
	for _, v := range c.known.withCode() {
		if allUseless(ownerless) {
			break
		}
		began := c.clock()
		key, err := c.open.codeKey(v)
		if err != nil {
			return 0, 0, err // whose the rest is cannot be said: all of it stays
		}
		if ownerless[key].Usable {
			delete(ownerless, key)
		}
		if !pause(ctx, c.clock()-began) {
			return 0, 0, ctx.Err()
		}
	}
	for key := range ownerless {
		gone, freed, err := c.open.compiler.Remove(key)
		if err != nil {
			return removed, bytes, err
		}
		if gone {
			removed, bytes = removed+1, bytes+freed
		}
	}
	return removed, bytes, nil
}

// allUseless says that no owner needs to be looked for.
func allUseless(entries map[string]compile.Entry) bool {
	for _, e := range entries {
		if e.Usable {
			return false
		}
	}
	return true
}

// pause waits for as long as the last step took, so that looking for owners takes half a core at most. It ends with ctx.
func pause(ctx context.Context, took time.Duration) bool {
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// sweep is Sweep in the background, once.
func (c *Catalogue) sweep(ctx context.Context) {
	removed, bytes, err := c.Sweep(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.log.Warn("the cache of compiled plugins could not be swept; it is tried again at the next start", "error", err)
	case removed > 0:
		c.log.Info("compiled code that belongs to no plugin was removed", "entries", removed, "bytes", bytes)
	}
}
