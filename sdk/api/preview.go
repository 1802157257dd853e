package api

import "encoding/json"

// PreviewRequest is the body of POST /v1/queues/{queue}/strategies/preview. Strategy is as in ReserveRequest; Max is 1 to
// 100, 0 is 10. The same Seed on the same state gives the same picks; nil is any.
type PreviewRequest struct {
	Strategy json.RawMessage `json:"strategy,omitempty" schema:"Strategy"` // The strategy; absent: Random
	Max      int             `json:"max,omitempty" limit:"0..MaxPicks"`    // Most chunks to look ahead; 0 or absent: 10
	// The same seed on the same state gives the same picks; absent: any
	Seed *uint64 `json:"seed,omitempty" limit:"0..MaxSeed"`
	// What the consumer would say about itself to plugins and formulas, as in a reservation: at most 16 keys
	Context Meta `json:"context,omitempty"`
}

// PreviewResponse is what a reserve would hand out now, in its order, and the seed that it was drawn by.
type PreviewResponse struct {
	Strategy string        `json:"strategy"` // The canonical text
	Picks    []PreviewPick `json:"picks"`    // What would be handed out, in order
	Seed     uint64        `json:"seed"`     // What Random drew by; ask with it again to get the same picks from the same state

	// Blocks that were not scored, as their plugin is not there, not active, out of use for now, or failed; what follows them was gone on
	// with, as a reserve would. Absent when there is none
	Warnings []StrategyWarning `json:"warnings,omitempty"`
	// Until then the restart grace keeps back what a limit counts, and it is not among the picks; absent: there is none
	RestartGraceUntil Time `json:"restart_grace_until,omitzero"`
}

// PreviewPick is a chunk that would be handed out, by the branch of this number, from 1. Path is the way to that branch
// through the strategy, as in OrElse[1] > MaxSimultaneous(company<5) > Random.
type PreviewPick struct {
	Submission string `json:"submission"` // Id of the submission
	Index      uint32 `json:"index"`      // Index of the chunk
	Meta       Meta   `json:"meta"`       // Of the submission
	Priority   int64  `json:"priority"`   // Of the submission
	Branch     int    `json:"branch"`     // Number of the branch, from 1; inside of Fair every alternative is a branch
	Path       string `json:"path"`       // The way to the branch through the strategy
}
