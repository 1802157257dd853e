package api

import "encoding/json"

// PreviewRequest is the body of POST /v1/queues/{queue}/strategies/preview. Strategy is as in ReserveRequest; Max is 1 to
// 100, 0 is 10. The same Seed on the same state gives the same picks; nil is any.
type PreviewRequest struct {
	Strategy json.RawMessage `json:"strategy,omitempty"`
	Max      int             `json:"max,omitempty"`
	Seed     *uint64         `json:"seed,omitempty"`
	Context  Meta            `json:"context,omitempty"` // that the reserve would carry, for plugins and formulas
}

// PreviewResponse is what a reserve would hand out now, in its order, and the seed that it was drawn by.
type PreviewResponse struct {
	Strategy string        `json:"strategy"` // canonical text
	Picks    []PreviewPick `json:"picks"`
	Seed     uint64        `json:"seed"`

	Warnings []StrategyWarning `json:"warnings,omitempty"` // blocks that were not scored, so that what follows them was gone on with
	// Until then what a limit counts is left out.
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`
}

// PreviewPick is a chunk that would be handed out, by the branch of this number, from 1. Path is the way to that branch
// through the strategy, as in OrElse[1] > MaxSimultaneous(company<5) > Random.
type PreviewPick struct {
	Submission string `json:"submission"`
	Index      uint32 `json:"index"`
	Meta       Meta   `json:"meta"`
	Priority   int64  `json:"priority"`
	Branch     int    `json:"branch"`
	Path       string `json:"path"`
}
