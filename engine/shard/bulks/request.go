package bulks

import (
	"encoding/json"
	"errors"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
)

// bulkRow is how a request stands in the journal: names and units that never change, whatever becomes of the Go
// types. It is JSON, as it is written once per operation and people may have to read it in a damaged file.
type bulkRow struct {
	Action        string              `json:"action"`
	Submission    queue.SubmissionID  `json:"submission,omitempty"`
	Fingerprint   string              `json:"fingerprint,omitempty"`
	DiedBefore    queue.Time          `json:"died_before,omitempty"`
	DiedAfter     queue.Time          `json:"died_after,omitempty"`
	Oldest        uint32              `json:"oldest,omitempty"`
	Until         *ageRow             `json:"until,omitempty"`
	States        []string            `json:"states,omitempty"`
	Meta          []journal.MetaField `json:"meta,omitempty"`
	CreatedBefore queue.Time          `json:"created_before,omitempty"`
	CreatedAfter  queue.Time          `json:"created_after,omitempty"`
	To            string              `json:"to,omitempty"`
	Priority      int64               `json:"priority,omitempty"`
	Limit         uint32              `json:"limit,omitempty"`
	Rate          uint32              `json:"rate_per_second,omitempty"`
	DryRun        bool                `json:"dry_run,omitempty"`
	Actor         string              `json:"actor,omitempty"`
}

// ageRow is the last of the oldest dead letters.
type ageRow struct {
	Died       queue.Time         `json:"died"`
	Submission queue.SubmissionID `json:"submission"`
	Index      uint32             `json:"index"`
}

// writeBulkRequest is a request as the op and the row of a bulk operation keep it;
// readBulkRequest is its inverse.
func writeBulkRequest(r *queue.BulkRequest) (string, error) {
	f := &r.Filter
	row := bulkRow{
		Action: r.Action.String(), Submission: f.Dead.Submission, Fingerprint: f.Dead.Fingerprint,
		DiedBefore: f.Dead.DiedBefore, DiedAfter: f.Dead.DiedAfter, Meta: journal.MetaFields(f.Meta),
		CreatedBefore: f.CreatedBefore, CreatedAfter: f.CreatedAfter, To: r.To, Priority: r.Priority,
		Limit: r.Limit, Rate: r.Rate, DryRun: r.DryRun, Actor: r.Actor, Oldest: f.Dead.Oldest,
	}
	if u := f.Dead.Until; u != (queue.DeadAge{}) {
		row.Until = &ageRow{u.Died, u.Chunk.Submission, u.Chunk.Index}
	}
	for _, state := range f.States {
		row.States = append(row.States, state.String())
	}
	text, err := json.Marshal(row)
	return string(text), err
}

var errBulkRequest = errors.New("it is damaged or of a newer Quern")

// What it does not know is refused: an operation that went on with a filter less would change what no one meant.
func readBulkRequest(text string) (r queue.BulkRequest, err error) {
	var row bulkRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return r, err
	}
	action, ok := queue.ParseBulkAction(row.Action)
	r = queue.BulkRequest{Action: action, To: row.To, Priority: row.Priority, Limit: row.Limit, Rate: row.Rate,
		DryRun: row.DryRun, Actor: row.Actor}
	f := &r.Filter
	f.Dead = queue.DeadFilter{Submission: row.Submission, Fingerprint: row.Fingerprint,
		DiedBefore: row.DiedBefore, DiedAfter: row.DiedAfter, Oldest: row.Oldest}
	if u := row.Until; u != nil {
		f.Dead.Until = queue.DeadAge{Died: u.Died, Chunk: queue.ChunkID{Submission: u.Submission, Index: u.Index}}
	}
	f.CreatedBefore, f.CreatedAfter = row.CreatedBefore, row.CreatedAfter
	for _, name := range row.States {
		state, known := queue.ParseSubmissionState(name)
		ok = ok && known
		f.States = append(f.States, state)
	}
	meta, whole := journal.MetaEntries(row.Meta)
	if f.Meta = meta; !ok || !whole {
		return r, errBulkRequest
	}
	return r, nil
}
