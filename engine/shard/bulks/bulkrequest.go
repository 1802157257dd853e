package bulks

import (
	"encoding/json"
	"errors"

	"github.com/quern-queue/quern/engine/queue"
)

// bulkRow is how a request stands in the journal: names and units that never change, whatever becomes of the Go types.
type bulkRow struct {
	Action        string        `json:"action"`
	Submission    uint64        `json:"submission,omitempty"`
	Fingerprint   string        `json:"fingerprint,omitempty"`
	DiedBefore    int64         `json:"died_before,omitempty"`
	DiedAfter     int64         `json:"died_after,omitempty"`
	Oldest        uint32        `json:"oldest,omitempty"`
	Until         *ageRow       `json:"until,omitempty"`
	States        []string      `json:"states,omitempty"`
	Meta          []bulkMetaRow `json:"meta,omitempty"`
	CreatedBefore int64         `json:"created_before,omitempty"`
	CreatedAfter  int64         `json:"created_after,omitempty"`
	To            string        `json:"to,omitempty"`
	Priority      int64         `json:"priority,omitempty"`
	Rate          uint32        `json:"rate_per_second,omitempty"`
	DryRun        bool          `json:"dry_run,omitempty"`
	Actor         string        `json:"actor,omitempty"`
}

// ageRow is the last of the oldest dead letters.
type ageRow struct {
	Died       int64  `json:"died"`
	Submission uint64 `json:"submission"`
	Index      uint32 `json:"index"`
}

// bulkMetaRow has an integer or a text.
type bulkMetaRow struct {
	Key  string  `json:"key"`
	Int  *int64  `json:"int,omitempty"`
	Text *string `json:"text,omitempty"`
}

// WriteBulkRequest is a request as the op and the row of a bulk operation keep it; readBulkRequest is its inverse.
func WriteBulkRequest(r *queue.BulkRequest) (string, error) {
	f := &r.Filter
	row := bulkRow{
		Action: r.Action.String(), Submission: uint64(f.Dead.Submission), Fingerprint: f.Dead.Fingerprint,
		DiedBefore: int64(f.Dead.DiedBefore), DiedAfter: int64(f.Dead.DiedAfter),
		CreatedBefore: int64(f.CreatedBefore), CreatedAfter: int64(f.CreatedAfter), To: r.To, Priority: r.Priority,
		Rate: r.Rate, DryRun: r.DryRun, Actor: r.Actor, Oldest: f.Dead.Oldest,
	}
	if u := f.Dead.Until; u != (queue.DeadAge{}) {
		row.Until = &ageRow{int64(u.Died), uint64(u.Chunk.Submission), u.Chunk.Index}
	}
	for _, state := range f.States {
		row.States = append(row.States, state.String())
	}
	for _, entry := range f.Meta {
		m := bulkMetaRow{Key: entry.Key}
		if entry.Value.IsInt() {
			n := entry.Value.Int()
			m.Int = &n
		} else {
			text := entry.Value.Text()
			m.Text = &text
		}
		row.Meta = append(row.Meta, m)
	}
	text, err := json.Marshal(row)
	return string(text), err
}

var errBulkRequest = errors.New("it is damaged or of a newer Quern")

func readBulkRequest(text string) (r queue.BulkRequest, err error) {
	var row bulkRow
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return r, err
	}
	action, ok := queue.ParseBulkAction(row.Action)
	r = queue.BulkRequest{Action: action, To: row.To, Priority: row.Priority, Rate: row.Rate, DryRun: row.DryRun, Actor: row.Actor}
	f := &r.Filter
	f.Dead = queue.DeadFilter{Submission: queue.SubmissionID(row.Submission), Fingerprint: row.Fingerprint,
		DiedBefore: queue.Time(row.DiedBefore), DiedAfter: queue.Time(row.DiedAfter), Oldest: row.Oldest}
	if u := row.Until; u != nil {
		f.Dead.Until = queue.DeadAge{Died: queue.Time(u.Died),
			Chunk: queue.ChunkID{Submission: queue.SubmissionID(u.Submission), Index: u.Index}}
	}
	f.CreatedBefore, f.CreatedAfter = queue.Time(row.CreatedBefore), queue.Time(row.CreatedAfter)
	for _, name := range row.States {
		state, known := queue.ParseSubmissionState(name)
		ok = ok && known
		f.States = append(f.States, state)
	}
	for _, m := range row.Meta {
		entry := queue.MetaEntry{Key: m.Key}
		switch {
		case m.Int != nil:
			entry.Value = queue.IntValue(*m.Int)
		case m.Text != nil:
			entry.Value = queue.StringValue(*m.Text)
		default:
			ok = false
		}
		f.Meta = append(f.Meta, entry)
	}
	if !ok {
		return r, errBulkRequest
	}
	return r, nil
}
