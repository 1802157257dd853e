package plugins

import (
	"encoding/json"

	"github.com/quern-queue/quern/engine/queue"
)

// act is what the audit log gets of a change of a plugin.
func (e *environment) act(action, name string, by queue.Who) queue.Act {
	return queue.Act{At: queue.At(e.now()), Who: by, Action: action, Target: "plugin " + name, Outcome: queue.ActOK}
}

// recordState is what is in use of a plugin as the audit log tells of it; nil if nothing of it was ever changed.
func recordState(r *queue.PluginRecord) any {
	if r.Revision == 0 {
		return nil
	}
	state := map[string]any{}
	for role, use := range r.Uses() {
		if !use.None() {
			state[role] = map[string]any{"sha256": hexOf(use.SHA256), "config": json.RawMessage(orEmpty(use.Config))}
		}
	}
	if r.Percent != 0 {
		state["percent"] = r.Percent
	}
	if r.Settings != nil {
		state["settings"] = json.RawMessage(r.Settings)
	}
	return state
}

func orEmpty(config []byte) []byte {
	if len(config) == 0 {
		return []byte("{}")
	}
	return config
}

// versionState is a version as the audit log tells of it.
func versionState(v *queue.PluginVersion) any {
	return map[string]any{"version": v.Version, "sha256": hexOf(v.SHA256), "size": v.Size}
}
