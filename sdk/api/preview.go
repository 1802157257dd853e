package api

import "encoding/json"

// PreviewRequest is the body of POST /v1/queues/{queue}/strategies/preview. Strategy is as in ReserveRequest; Max is 1 to
// 100, 0 is 10. The same Seed on the same state gives the same picks; nil is any.
type PreviewRequest struct {
	Strategy json.RawMessage `json:"strategy,omitempty" schema:"Strategy"` // The strategy; absent: Random
	Max      int             `json:"max,omitempty" limit:"0..MaxPicks"`    // Most chunks to look ahead; 0 or absent: 10
	// The same seed gives the same picks from the same state; absent: a random one
	Seed *uint64 `json:"seed,omitempty" limit:"0..MaxSeed"`
	// Facts about the consumer for plugins and formulas, as in a reservation: at most 16 keys
	Context Meta `json:"context,omitempty"`
}

// PreviewResponse is what a reserve would hand out now, in its order, and the seed that it was drawn by.
type PreviewResponse struct {
	Strategy string        `json:"strategy"` // The canonical text
	Picks    []PreviewPick `json:"picks"`    // The chunks that would be handed out, in order
	// Seed of Random; with it, the same state gives the same picks again
	Seed uint64 `json:"seed"`

	// Blocks that did not score, because their plugin is missing, inactive, out of use or failed. Their next branch
	// was used, as in a reserve. Absent if there are none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
	// End of the restart grace; until then, picks leave out chunks that a limit counts. Absent: there is none
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`
}

// PreviewPick is a chunk that would be handed out, by the branch of this number, from 1. Path is the way to that branch
// through the strategy, as in OrElse[1] > MaxSimultaneous(company<5) > Random.
type PreviewPick struct {
	Submission string `json:"submission"` // Id of the submission
	Index      uint32 `json:"index"`      // Index of the chunk
	Meta       Meta   `json:"meta"`       // Meta of the submission
	Priority   int64  `json:"priority"`   // Priority of the submission
	Branch     int    `json:"branch"`     // Number of the branch, from 1; inside of Fair every alternative is a branch
	Path       string `json:"path"`       // The way to the branch through the strategy
}
