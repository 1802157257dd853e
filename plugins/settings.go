package plugins

import (
	"encoding/json"

	"github.com/quern-queue/quern/engine/queue"
)

// Settings are what an operator may set for a plugin.
type Settings struct {
	// Hold overrides the breaker: "" leaves it to itself, HoldOpen takes the plugin out of use, HoldClosed uses it whatever happens.
	Hold        string  `json:"hold,omitempty"`
	CPUShare    float64 `json:"cpu_share,omitempty"`    // of one core; 0: the server's
	RecordEvery int     `json:"record_every,omitempty"` // one of so many batches is recorded; 0: the server's
	LogLevel    int     `json:"log_level,omitempty"`    // lines below it are dropped: 0 debug to 3 error
}

// The overrides of a breaker.
const (
	HoldOpen   = "open"
	HoldClosed = "closed"
)

func parseSettings(raw []byte) (s Settings, err error) {
	if len(raw) == 0 {
		return s, nil
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

func (s *Settings) check() error {
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
func (x Rollout) PutSettings(name string, s Settings, change Change) (Plugin, error) {
	if err := s.check(); err != nil {
		return Plugin{}, err
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
func marshal(s Settings) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return []byte("{}")
	}
	return text
}
