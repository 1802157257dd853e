package plugins

import (
	"encoding/json"
	"errors"

	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/sdk/api"
)

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
