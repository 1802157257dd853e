package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"
)

// Entry is the place of one module's code in the cache.
type Entry struct {
	Key    string // see Key; also what an earlier removal left behind
	Usable bool   // it holds code for this engine and this processor
}

const (
	removedSuffix = ".removed" // of an entry that is being removed: it is no longer loaded
	probePrefix   = "probe-"
)

// Key names the code of a module in the cache.
func Key(module []byte) string {
	sum := sha256.Sum256(module)
	return hex.EncodeToString(sum[:])
}

// Unclaimed lists the entries that Load was not asked for since New, and so are not in use. Files of other names are not the cache's and
// are left out.
func (c *Compiler) Unclaimed() ([]Entry, error) {
	list, err := os.ReadDir(c.config.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("compile: cache: %w", err)
	}
	var names []string
	for _, e := range list {
		if e.IsDir() && ours(e.Name()) && !c.claimed(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	engine, err := c.engineDir()
	if err != nil {
		return nil, fmt.Errorf("compile: cache: %w", err)
	}
	entries := make([]Entry, len(names))
	for k, name := range names {
		code, err := os.ReadDir(filepath.Join(c.config.Dir, name, engine))
		entries[k] = Entry{Key: name, Usable: err == nil && len(code) > 0 && len(name) == 2*sha256.Size}
	}
	return entries, nil
}

// ours says whether a name is one that this package gives.
func ours(name string) bool {
	if strings.HasPrefix(name, probePrefix) {
		return true
	}
	sum, err := hex.DecodeString(strings.TrimSuffix(name, removedSuffix))
	return err == nil && len(sum) == sha256.Size
}

// engineDir is how the engine calls the part of an entry that is for its own version and for this processor: it says so only by making one.
func (c *Compiler) engineDir() (name string, err error) {
	probe, err := os.MkdirTemp(c.config.Dir, probePrefix)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(probe)) }()
	cache, err := wazero.NewCompilationCacheWithDir(probe)
	if err != nil {
		return "", err
	}
	made, err := os.ReadDir(probe)
	if err = errors.Join(err, cache.Close(context.Background())); err != nil {
		return "", err
	}
	if len(made) != 1 {
		return "", fmt.Errorf("the engine made %d directories in an empty cache, want one", len(made))
	}
	return made[0].Name(), nil
}

// Remove deletes an entry, unless Load was asked for it meanwhile, and says how many bytes it freed. Code that is loaded stays loaded.
func (c *Compiler) Remove(key string) (removed bool, bytes int64, err error) {
	if !ours(key) {
		return false, 0, fmt.Errorf("compile: cache: %q is no entry", key)
	}
	from := filepath.Join(c.config.Dir, key)
	to := strings.TrimSuffix(from, removedSuffix) + removedSuffix
	c.mu.Lock()
	if c.claims[key] > 0 {
		c.mu.Unlock()
		return false, 0, nil
	}
	if from != to { // in one step: a Load that comes now finds nothing, and has the module compiled
		err = errors.Join(os.RemoveAll(to), os.Rename(from, to))
	}
	c.mu.Unlock()
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	if err == nil {
		bytes, err = sizeOf(to)
	}
	if err = errors.Join(err, os.RemoveAll(to)); err != nil {
		return false, 0, fmt.Errorf("compile: cache: %w", err)
	}
	return true, bytes, nil
}

func sizeOf(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// claim keeps an entry from being removed.
func (c *Compiler) claim(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claims == nil {
		c.claims = map[string]int{}
	}
	c.claims[key]++
}

// unclaim is for a Load that failed: it left nothing, and a server that is sent bad modules for ever must not remember them.
func (c *Compiler) unclaim(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claims[key]--; c.claims[key] <= 0 {
		delete(c.claims, key)
	}
}

func (c *Compiler) claimed(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claims[key] > 0
}
