package plugins

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/sdk/api"
	"github.com/quern-queue/quern/wasm/host"
)

// Change says who changes the use of a plugin, and under which condition.
type Change struct {
	Revision  uint64    // the plugin must be at; 0: any
	Unchanged bool      // it must be at revision 0: nothing of it was ever changed
	By        queue.Who // the author of the change
	Force     bool      // of a deletion: also one that stored strategies name, which then go on without it

	Users []queue.PluginUser // of a deletion or an activation: the blocks of queues of other nodes that name the plugin
}

// holds says whether the condition is met by a plugin at this revision.
func (c *Change) holds(revision uint64) bool {
	return c.Revision == revision || c.Revision == 0 && !c.Unchanged
}

// Rollout decides what of a plugin is in use: the active version, a canary, a shadow, and how its breaker is held.
type Rollout struct {
	*environment
	known   *registry
	open    *sandboxes
	scorers *scorers
	plugins Plugins
}

// Activate lets a version score from the next request on, in the place of the active one. A canary and a shadow of this version go. A
// version that cannot be opened, or that refuses its configuration, changes nothing; nor does one that refuses the configurations and
// windows of strategies in use, unless it is forced.
func (x Rollout) Activate(ctx context.Context, name string, s api.PluginSelection, change Change) (api.Plugin, error) {
	return x.change("plugin.activate", name, change, func(p *plugin, r *queue.PluginRecord) error {
		use, err := x.selected(ctx, p, &s)
		if err != nil {
			return err
		}
		if !s.Force {
			if err := x.refusesNone(ctx, p, x.known.of(use.SHA256), change.Users); err != nil {
				return err
			}
		}
		if keyOf(&r.Active) != keyOf(&use) && !r.Active.None() {
			r.Previous = r.Active
		}
		r.Active = use
		if r.Canary.SHA256 == use.SHA256 {
			r.Canary, r.Percent = queue.PluginUse{}, 0
		}
		if keyOf(&r.Shadow) == keyOf(&use) {
			r.Shadow = queue.PluginUse{}
		}
		return nil
	})
}

// Deactivate takes a plugin out of use; strategies that name it go on with their next branch.
func (x Rollout) Deactivate(name string, change Change) (api.Plugin, error) {
	return x.change("plugin.deactivate", name, change, func(_ *plugin, r *queue.PluginRecord) error {
		if r.Active.None() {
			return &queue.Error{Code: queue.CodeConflict, Message: "The plugin is not active."}
		}
		r.Previous, r.Active = r.Active, queue.PluginUse{}
		r.Canary, r.Shadow, r.Percent = queue.PluginUse{}, queue.PluginUse{}, 0
		return nil
	})
}

// Rollback activates the version that was active before. If there is no memory for it beside the active one, or other modules are being
// compiled, it is starting afterwards: the replaced version makes room.
func (x Rollout) Rollback(ctx context.Context, name string, change Change) (api.Plugin, error) {
	return x.change("plugin.rollback", name, change, func(p *plugin, r *queue.PluginRecord) error {
		if r.Previous.None() {
			return &queue.Error{Code: queue.CodeConflict,
				Message: "There is no version before the active one. Activate a version by its name."}
		}
		_, err := x.selected(ctx, p, &api.PluginSelection{Version: hexOf(r.Previous.SHA256), Config: r.Previous.Config})
		if err != nil && !later(err) {
			return err
		}
		r.Active, r.Previous = r.Previous, r.Active
		r.Canary, r.Percent = queue.PluginUse{}, 0
		return nil
	})
}

// Shadow lets a version score beside the active one without deciding anything; with an empty version there is none any more.
func (x Rollout) Shadow(ctx context.Context, name string, s api.PluginSelection, change Change) (api.Plugin, error) {
	return x.change("plugin.shadow", name, change, func(p *plugin, r *queue.PluginRecord) (err error) {
		r.Shadow, err = x.beside(ctx, p, &s)
		return err
	})
}

// Canary lets a version score for this many per cent of the requests; 0 per cent, or an empty version, ends that.
func (x Rollout) Canary(ctx context.Context, name string, s api.PluginSelection, change Change) (api.Plugin, error) {
	return x.change("plugin.canary", name, change, func(p *plugin, r *queue.PluginRecord) (err error) {
		if s.Percent < 0 || s.Percent > 100 {
			return queue.Invalid("/percent", "is %d; 0 to 100 are allowed", s.Percent)
		}
		if s.Percent == 0 {
			s.Version = ""
		}
		r.Canary, err = x.beside(ctx, p, &s)
		r.Percent = s.Percent
		if r.Canary.None() {
			r.Percent = 0
		}
		return err
	})
}

// beside opens a version for use beside the active one.
func (x Rollout) beside(ctx context.Context, p *plugin, s *api.PluginSelection) (queue.PluginUse, error) {
	if s.Version == "" {
		return queue.PluginUse{}, nil
	}
	if record, _ := p.state(); record.Active.None() {
		return queue.PluginUse{}, &queue.Error{Code: queue.CodeConflict,
			Message: "No version of the plugin is active, so there is nothing to compare with. Activate one first."}
	}
	return x.selected(ctx, p, s)
}

// Reset closes the breakers of a plugin and forgets its faults and its processor time. A quarantine ends only by activating with force.
func (x Rollout) Reset(name string, change Change) (api.Plugin, error) {
	return x.change("plugin.reset", name, change, func(p *plugin, _ *queue.PluginRecord) error {
		x.scorers.resetBreakers(p)
		return nil
	})
}

// CloseBreakers does the same as Reset, without a record of it: another node of the cluster has recorded it.
func (x Rollout) CloseBreakers(name string) {
	if p := x.known.named(name); p != nil {
		x.scorers.resetBreakers(p)
	}
}

// selected opens the version and configuration of a selection.
func (x Rollout) selected(ctx context.Context, p *plugin, s *api.PluginSelection) (queue.PluginUse, error) {
	v, err := x.known.find(p.name, s.Version)
	if err != nil {
		return queue.PluginUse{}, queue.Invalid("/version", "names no version: %s", messageOf(err))
	}
	if v.manifest == nil {
		return queue.PluginUse{}, &queue.Error{Code: queue.CodeConflict,
			Message: "The version cannot be used by this server: " + v.state.Load().reason}
	}
	config, err := validConfig(v.manifest, s.Config, "/config")
	if err != nil {
		return queue.PluginUse{}, err
	}
	if now := v.state.Load(); now.name == api.PluginQuarantined && !s.Force {
		return queue.PluginUse{}, &queue.Error{Code: queue.CodeConflict, Message: "The version is quarantined: " +
			now.reason + ". Activate another one, or this one with force."}
	}
	u, err := x.open.use(ctx, v.SHA256, config)
	var fault *host.Fault
	if errors.As(err, &fault) {
		return queue.PluginUse{}, queue.Invalid("/config", "is refused by the plugin: %s", fault.Error())
	}
	if err != nil {
		return queue.PluginUse{}, fmt.Errorf("plugins: open a version: %w", err)
	}
	if s.Force {
		u.breaker.reset()
		if v.state.Load().name != api.PluginReady {
			if err := x.known.setState(v, state{name: api.PluginReady}); err != nil {
				return queue.PluginUse{}, fmt.Errorf("plugins: end a quarantine: %w", err)
			}
		}
	}
	return queue.PluginUse{SHA256: v.SHA256, Config: config}, nil
}

// change makes one change of the use of a plugin: written down first, with its entry in the audit log, then swapped in at once.
func (x Rollout) change(action, name string, change Change, do func(p *plugin, r *queue.PluginRecord) error) (api.Plugin, error) {
	x.known.changes.Lock()
	defer x.known.changes.Unlock()
	store, err := x.known.opened()
	if err != nil {
		return api.Plugin{}, err
	}
	p := x.known.named(name)
	if p == nil {
		return api.Plugin{}, unknownPlugin(name)
	}
	record, _ := p.state()
	if !change.holds(record.Revision) {
		return api.Plugin{}, stale(record.Revision)
	}
	act := x.act(action, name, change.By)
	before := recordState(&record)
	if err := do(p, &record); err != nil {
		return api.Plugin{}, err
	}
	if record.Revision == math.MaxInt64 {
		return api.Plugin{}, errors.New("plugins: the revisions are used up")
	}
	record.Revision++
	record.Changed, record.Actor = act.At, change.By.Actor
	if record.Settings == nil {
		record.Settings = marshal(api.PluginSettings{})
	}
	settings, err := parseSettings(record.Settings)
	if err != nil {
		return api.Plugin{}, fmt.Errorf("plugins: settings: %w", err)
	}
	act.Change(before, recordState(&record))
	if err := store.PutPluginRecord(record, act); err != nil {
		return api.Plugin{}, fmt.Errorf("plugins: store a change: %w", err)
	}
	p.adopt(record, settings)
	x.scorers.swap(p)
	return x.plugins.show(p), nil
}

func stale(revision uint64) *queue.Error {
	return &queue.Error{Code: queue.CodePrecondition, Message: fmt.Sprintf("The plugin is at revision %d, which is "+
		"not the one that If-Match names. Read it again, then retry with its new ETag.", revision)}
}

// rolesOf lists what a version is used as.
func rolesOf(r *queue.PluginRecord, v *version) (roles []string) {
	for role, use := range r.Uses() {
		if use.SHA256 == v.SHA256 {
			roles = append(roles, role)
		}
	}
	return roles
}

// The overrides of a breaker.
const (
	HoldOpen   = "open"
	HoldClosed = "closed"
)

func parseSettings(raw []byte) (s api.PluginSettings, err error) {
	if len(raw) == 0 {
		return s, nil
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

// checkSettings names everything that is wrong with them.
func checkSettings(s *api.PluginSettings) error {
	var wrong []queue.Problem
	for _, d := range queue.PluginSettings() {
		var refused *queue.Error
		if errors.As(d.Valid(s), &refused) {
			wrong = append(wrong, refused.Problems...)
		}
	}
	if len(wrong) > 0 {
		return &queue.Error{Code: queue.CodeInvalid, Message: "The settings are not valid.", Problems: wrong}
	}
	return nil
}

// PutSettings replaces the settings of a plugin. Holding a breaker closed also closes it now.
func (x Rollout) PutSettings(name string, s api.PluginSettings, change Change) (api.Plugin, error) {
	if err := checkSettings(&s); err != nil {
		return api.Plugin{}, err
	}
	return x.change("plugin.settings", name, change, func(p *plugin, r *queue.PluginRecord) error {
		r.Settings = marshal(s)
		if s.Hold == HoldClosed {
			x.scorers.resetBreakers(p)
		}
		return nil
	})
}

// marshal writes what cannot fail.
func marshal(s api.PluginSettings) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return []byte("{}")
	}
	return text
}

// maxTried bounds the configurations in use that an activation tries: each may take quern_init two seconds.
const maxTried = 32

// refusesNone says that a version accepts the configurations and windows of strategies in use, or lists those that it refuses. Accepted
// configurations are open afterwards, so that the first reserve finds them ready.
func (x Rollout) refusesNone(ctx context.Context, p *plugin, v *version, others []queue.PluginUser) error {
	type sent struct {
		config string
		window int
	}
	tried := map[sent]string{}
	var refused []string
	for _, u := range append(x.known.usersOf(p.name), others...) {
		about := sent{u.Config, u.Window}
		if u.Version != "" || about == (sent{}) {
			continue
		}
		why, known := tried[about]
		if !known {
			if len(tried) == maxTried {
				break
			}
			why = x.whyRefused(ctx, v, blockOf(p, &u))
			tried[about] = why
		}
		if why != "" {
			refused = append(refused, fmt.Sprintf("%s, which %s sends (%s)", clip(blockOf(p, &u).String()), &u, why))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return &queue.Error{Code: queue.CodeConflict, Message: fmt.Sprintf("The version refuses what strategies in use send: %s. Change them "+
		"first, or activate it with force: their blocks then yield nothing, and requests go on with the next branch.", someOf(refused))}
}

// whyRefused is why a version does not take a block; "" if it takes it, or that cannot be known now.
func (x Rollout) whyRefused(ctx context.Context, v *version, b *strategy.Scored) string {
	if b.Window > v.manifest.WindowMax {
		return fmt.Sprintf("the window is %d, and it takes at most %d candidates", b.Window, v.manifest.WindowMax)
	}
	if b.Config == nil {
		return "" // it gets that of the activation
	}
	config, err := validConfig(v.manifest, b.Config, "/config")
	if err != nil {
		return messageOf(err)
	}
	var fault *host.Fault
	if _, err := x.open.use(ctx, v.SHA256, config); errors.As(err, &fault) {
		return fault.Error()
	}
	return ""
}

// blockOf is the block of a user.
func blockOf(p *plugin, u *queue.PluginUser) *strategy.Scored {
	b := &strategy.Scored{Plugin: p.name, Version: u.Version, Window: u.Window}
	if u.Config != "" {
		b.Config = []byte(u.Config)
	}
	return b
}
