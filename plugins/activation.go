package plugins

import (
	"context"
	"errors"
	"fmt"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/strategy"
	"github.com/quern-queue/quern/wasm/host"
)

// maxTried bounds the configurations in use that an activation tries: each may take quern_init two seconds.
const maxTried = 32

// refusesNone says that a version takes what strategies in use send, or lists what it refuses. What it takes is open afterwards, so that
// the first reserve finds it ready.
func (x Rollout) refusesNone(ctx context.Context, p *plugin, v *version) error {
	type sent struct {
		config string
		window int
	}
	tried := map[sent]string{}
	var refused []string
	for _, u := range x.known.usersOf(p.name) {
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
