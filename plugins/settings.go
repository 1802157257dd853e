package plugins

import (
	"encoding/json"

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

func checkSettings(s *api.PluginSettings) error {
	var wrong []queue.Problem
	add := func(pointer, detail string) { wrong = append(wrong, queue.Problem{Pointer: pointer, Detail: detail}) }
	if s.Hold != "" && s.Hold != HoldOpen && s.Hold != HoldClosed {
		add("/hold", "must be open, closed or empty")
	}
	if !(s.CPUShare >= 0 && s.CPUShare <= 64) {
		add("/cpu_share", "must be from 0 to 64 cores; 0 is the server's default")
	}
	if s.RecordEvery < 0 || s.RecordEvery > 1<<30 {
		add("/record_every", "must be from 0 to 1073741824; 0 is the server's default")
	}
	if s.LogLevel < 0 || s.LogLevel > 3 {
		add("/log_level", "must be from 0 (debug) to 3 (error)")
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
