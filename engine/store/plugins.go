package store

import (
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

const (
	selectPluginVersions = "SELECT sha256, name, version, state, reason, size, manifest, report, created, actor FROM " +
		"plugin_version ORDER BY rowid"
	selectPluginModule  = "SELECT module FROM plugin_version WHERE sha256 = ?"
	selectPluginRecords = "SELECT name, revision, active, active_config, previous, previous_config, shadow, " +
		"shadow_config, canary, canary_config, percent, settings, changed, actor FROM plugin ORDER BY name"
)

// pluginStatements read the tables about plugins. The module is read by a statement of its own: it may have
// megabytes, and lists must not load it.
type pluginStatements struct {
	versions, module, records *sqlitedb.Stmt
}

func (s *pluginStatements) prepare() []prepared {
	return []prepared{
		{&s.versions, selectPluginVersions},
		{&s.module, selectPluginModule},
		{&s.records, selectPluginRecords},
	}
}

// PluginVersions lists the versions of all plugins without their modules, in the order in which they came.
func (c *Catalogue) PluginVersions() (all []queue.PluginVersion, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err = rowsOf(c.plugin.versions, func(row sqlitedb.Row) (queue.PluginVersion, error) {
		v := queue.PluginVersion{
			Name: row.Text(1), Version: row.Text(2), State: row.Text(3), Reason: row.Text(4), Size: row.Int(5),
			Manifest: row.Blob(6), Report: row.Blob(7), Created: queue.Time(row.Int(8)), Actor: row.Text(9),
		}
		if !copySum(&v.SHA256, row.Blob(0)) || v.SHA256 == (queue.SHA256{}) {
			return v, c.damaged(nil, "a version of %q whose sha256 has %d bytes", v.Name, len(row.Blob(0)))
		}
		return v, nil
	})
	return all, wrap("plugin versions", err)
}

// PluginModule gives the bytes of a version's module; found is false if there is no such
// version. The caller checks them against the sum: it hashes them before it compiles them, so a damaged catalogue
// cannot make the server run other code.
func (c *Catalogue) PluginModule(sum queue.SHA256) (module []byte, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err = c.plugin.module.Query(func(row sqlitedb.Row) (bool, error) {
		module, found = row.Blob(0), true
		return false, nil
	}, sum[:])
	return module, found, wrap("plugin module", err)
}

// PutPluginVersion stores a new version with its module durably. One that is there already is an error.
func (c *Catalogue) PutPluginVersion(v queue.PluginVersion, module []byte, acts ...queue.Act) error {
	return c.change("put plugin version", acts, do("plugin.version", v.SHA256[:], v.Name, v.Version, v.State, v.Reason,
		v.Size, v.Manifest, v.Report, int64(v.Created), v.Actor, module))
}

// SetPluginState changes the state of a version durably.
func (c *Catalogue) SetPluginState(sum queue.SHA256, state, reason string) error {
	_, err := c.note("set plugin state", nil, do(pluginState, state, reason, sum[:]))
	return err
}

// DeletePluginVersion removes a version with its module, durably. One that is not there is removed already. The plugin
// must still be at a revision, in which the version is not in use.
func (c *Catalogue) DeletePluginVersion(sum queue.SHA256, name string, revision uint64, acts ...queue.Act) error {
	return c.change("delete plugin version", acts, atRevision(name, revision), do("plugin.version.drop", sum[:]))
}

// atRevision refuses a change of a plugin that was changed since the caller read its record. It has revision 0 without
// a record.
func atRevision(name string, revision uint64) journal.Step {
	return do("if.plugin", name, int64(revision))
}

// PluginRecords lists, for all plugins by name, which versions are in use.
func (c *Catalogue) PluginRecords() (all []queue.PluginRecord, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, err = rowsOf(c.plugin.records, func(row sqlitedb.Row) (queue.PluginRecord, error) {
		r := queue.PluginRecord{Name: row.Text(0), Revision: uint64(row.Int(1)), Percent: int(row.Int(10)),
			Settings: row.Blob(11), Changed: queue.Time(row.Int(12)), Actor: row.Text(13)}
		for i, use := range []*queue.PluginUse{&r.Active, &r.Previous, &r.Shadow, &r.Canary} {
			if sum := row.Blob(2 + 2*i); sum != nil && !copySum(&use.SHA256, sum) {
				return r, c.damaged(nil, "the plugin %q with a sha256 of %d bytes", r.Name, len(sum))
			}
			use.Config = row.Blob(3 + 2*i)
		}
		if r.Percent < 0 || r.Percent > 100 || row.Int(1) < 1 {
			return r, c.damaged(nil, "the plugin %q with the revision %d and %d per cent", r.Name, row.Int(1),
				r.Percent)
		}
		return r, nil
	})
	return all, wrap("plugin records", err)
}

// PutPluginRecord durably stores which versions of a plugin are in use, and replaces the record before it. That must
// have the revision before it, and the versions in use must still be there.
func (c *Catalogue) PutPluginRecord(r queue.PluginRecord, acts ...queue.Act) error {
	steps := []journal.Step{atRevision(r.Name, r.Revision-1)}
	for _, use := range []*queue.PluginUse{&r.Active, &r.Shadow, &r.Canary} {
		if !use.None() {
			steps = append(steps, do("if.version", use.SHA256[:]))
		}
	}
	args := []any{r.Name, int64(r.Revision)}
	for _, use := range []*queue.PluginUse{&r.Active, &r.Previous, &r.Shadow, &r.Canary} {
		if use.SHA256 == (queue.SHA256{}) {
			args = append(args, nil, nil)
		} else {
			args = append(args, use.SHA256[:], use.Config)
		}
	}
	args = append(args, int64(r.Percent), r.Settings, int64(r.Changed), r.Actor)
	return c.change("put plugin record", acts, append(steps, do("plugin.put", args...))...)
}

// DeletePlugin removes a plugin with all its versions, durably. It must still be at a revision. Both steps are in one
// commit: no version stays behind without its plugin.
func (c *Catalogue) DeletePlugin(name string, revision uint64, acts ...queue.Act) error {
	return c.change("delete plugin", acts, atRevision(name, revision), do("plugin.versions.drop", name),
		do("plugin.drop", name))
}

func copySum(to *queue.SHA256, from []byte) bool {
	return copy(to[:], from) == len(to) && len(from) == len(to)
}
