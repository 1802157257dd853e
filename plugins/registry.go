package plugins

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

// registry is the index of plugins and versions, as the store has them. It knows which versions are in use, but not which are open.
type registry struct {
	*environment
	metrics *metrics

	changes sync.Mutex // one change at a time; held while what it is about is opened

	mu       sync.RWMutex // guards what follows, for moments
	store    Store        // nil until open
	closed   bool
	queues   Queues
	plugins  map[string]*plugin
	versions map[queue.SHA256]*version
	bytes    int64
	ranks    int // plugins that there ever were
}

func newRegistry(env *environment, m *metrics) *registry {
	return &registry{environment: env, metrics: m, plugins: map[string]*plugin{}, versions: map[queue.SHA256]*version{}}
}

// open reads the store. queues may be nil.
func (r *registry) open(store Store, queues Queues) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	versions, err := store.PluginVersions()
	if err != nil {
		return fmt.Errorf("plugins: open: %w", err)
	}
	records, err := store.PluginRecords()
	if err != nil {
		return fmt.Errorf("plugins: open: %w", err)
	}
	r.mu.Lock()
	r.store, r.queues = store, queues
	for i := range versions {
		r.enter(readVersion(&versions[i], r.log))
	}
	r.mu.Unlock()
	for i := range records {
		r.restore(&records[i])
	}
	return nil
}

// restore brings a plugin back to its record, without opening the versions in use.
func (r *registry) restore(record *queue.PluginRecord) {
	p := r.named(record.Name)
	if p == nil {
		r.log.Error("a plugin's versions are gone from the store; it is left out", "plugin", record.Name)
		return
	}
	settings, err := parseSettings(record.Settings)
	if err != nil {
		r.log.Error("a plugin's settings cannot be read; the defaults hold", "plugin", record.Name, "error", err)
	}
	p.adopt(*record, settings)
}

// opened is the store, once it is open.
func (r *registry) opened() (Store, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.store == nil {
		return nil, errClosed
	}
	return r.store, nil
}

// enter adds a version to the registry. registry.mu is held.
func (r *registry) enter(v *version) {
	p := r.plugins[v.Name]
	if p == nil {
		p = newPlugin(v.Name, &r.limits)
		p.rank = r.ranks
		r.ranks++
		r.metrics.watch(p)
		r.plugins[v.Name] = p
	}
	r.versions[v.SHA256] = v
	p.versions = append(p.versions, v)
	r.bytes += v.Size
}

// named is the plugin of a name, or nil.
func (r *registry) named(name string) *plugin {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.plugins[name]
}

// of is the version of a sum, or nil.
func (r *registry) of(sum queue.SHA256) *version {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.versions[sum]
}

// versionsOf are the versions of a plugin, in the order in which they came.
func (r *registry) versionsOf(p *plugin) []*version {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(p.versions)
}

// current is the active version, whatever its state, or nil.
func (r *registry) current(p *plugin) *version {
	record, _ := p.state()
	return r.of(record.Active.SHA256)
}

// all lists the plugins by name.
func (r *registry) all() []*plugin {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.plugins), func(a, b *plugin) int { return strings.Compare(a.name, b.name) })
}

// find resolves a version of a plugin: its version text (the newest of that text), or 8 to 64 digits of its sha256.
func (r *registry) find(name, text string) (*version, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p := r.plugins[name]
	if p == nil {
		return nil, unknownPlugin(name)
	}
	var found []*version
	for i := len(p.versions) - 1; i >= 0; i-- {
		v := p.versions[i]
		if v.Version == text {
			return v, nil
		}
		if digits := strings.TrimPrefix(strings.ToLower(text), "sha256:"); len(digits) >= 8 &&
			strings.HasPrefix(hex.EncodeToString(v.SHA256[:]), digits) {
			found = append(found, v)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, &queue.Error{Code: queue.CodeUnknownPlugin, Message: "The plugin \"" + name +
			"\" has no version \"" + clip(text) +
			"\". A version is named by its version text, or by the first 8 or more digits of its sha256."}
	}
	return nil, &queue.Error{Code: queue.CodeUnknownPlugin, Message: "Several versions of the plugin \"" + name +
		"\" begin with " + clip(text) + ". Give more digits of the sha256."}
}

// room says whether there is room for a version.
func (r *registry) room(name string, size int64) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	p := r.plugins[name]
	switch {
	case p == nil && len(r.plugins) >= r.limits.Names:
		return &queue.Error{Code: queue.CodeConflict,
			Message: fmt.Sprintf("There are %d plugins, which is the most. Delete one that is not used.", len(r.plugins))}
	case p != nil && len(p.versions) >= r.limits.Versions:
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The plugin \"%s\" has %d versions, which "+
			"is the most. Delete some that are not used.", name, len(p.versions))}
	case r.bytes+size > r.limits.Bytes:
		return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("All modules together have %d bytes, and "+
			"%d are allowed. Delete versions that are not used.", r.bytes, r.limits.Bytes)}
	}
	return nil
}

// keeps says whether a version and configuration stays open even when no strategy asks for it: it is active, a canary or a shadow.
func (r *registry) keeps(u *use) bool {
	p := r.named(u.version.Name)
	if p == nil || !u.version.ready() {
		return false
	}
	record, _ := p.state()
	return u.is(&record.Active) || u.is(&record.Canary) || u.is(&record.Shadow)
}

// withCode lists the versions that this server can compile.
func (r *registry) withCode() (list []*version) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, v := range r.versions {
		if v.manifest != nil {
			list = append(list, v)
		}
	}
	return list
}

// setState changes a version's state, durably.
func (r *registry) setState(v *version, s state) error {
	v.state.Store(&s)
	store, err := r.opened()
	if err != nil {
		return err
	}
	return store.SetPluginState(v.SHA256, s.name, s.reason)
}

// quarantine takes a version out of use until an operator forces it back. If that cannot be stored it is logged, and holds in memory.
func (r *registry) quarantine(sum queue.SHA256, reason string) {
	v := r.of(sum)
	if v == nil || v.state.Load().name == api.PluginQuarantined {
		return
	}
	r.log.Warn("a plugin's version is quarantined", "plugin", v.Name, "version", v.Version, "sha256", short(sum), "reason", reason)
	if err := r.setState(v, state{api.PluginQuarantined, reason}); err != nil {
		r.log.Error("that a plugin is quarantined could not be stored", "plugin", v.Name, "sha256", short(sum), "error", err)
	}
}
