package repair

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/check"
)

// Version is the form of a report as JSON. Fields may be added without raising it.
const Version = 1

// maxLost is how many losses are listed; the others are counted.
const maxLost = 10_000

// Report says what was repaired, and what is lost.
type Report struct {
	Version  int           `json:"version"`
	Data     string        `json:"data"`         // the directory as it was, and is
	To       string        `json:"to,omitempty"` // the one that was made; "": no journal needed it
	Journals []Journal     `json:"journals"`     // that were repaired
	Losses   int           `json:"losses"`       // how many there are
	Lost     []Lost        `json:"lost"`         // the first 10,000 of them
	Check    *check.Report `json:"check"`        // of what was made, or of what needed no repair: what is damaged there still
}

// Journal is the journal of a queue that was cut off before its damage.
type Journal struct {
	Queue      string `json:"queue"`
	Reason     string `json:"reason"`     // what was wrong with it
	Checkpoint uint64 `json:"checkpoint"` // the position that the store holds
	Kept       uint64 `json:"kept"`       // the last position that could be kept; what the store holds is kept anyway
	Unreadable uint64 `json:"unreadable"` // how many batches behind it could not be read, as far as that is known
}

// Lost is something that was written, and is gone.
type Lost struct {
	Queue      string         `json:"queue"`
	Position   uint64         `json:"position"` // of its batch
	At         *time.Time     `json:"at,omitempty"`
	Op         string         `json:"op"`                   // insert, complete, return, end, ...; damaged: no one can tell what it was
	Submission string         `json:"submission,omitempty"` // none when its insert cannot be read: the fields have its number then
	Chunk      *uint32        `json:"chunk,omitempty"`
	Fields     map[string]any `json:"fields,omitempty"`
}

// String is the loss as a line.
func (l *Lost) String() string {
	line := fmt.Sprintf("queue %s, batch %d", l.Queue, l.Position)
	if l.At != nil {
		line += " of " + l.At.Format(time.RFC3339Nano)
	}
	if l.Submission != "" {
		line += ", submission " + l.Submission
	}
	if l.Chunk != nil {
		line += fmt.Sprintf(", chunk %d", *l.Chunk)
	}
	switch l.Op {
	case "insert":
		return line + ": it was inserted, and is gone"
	case "complete":
		if l.Submission == "" {
			return line + fmt.Sprintf(": it was completed; its submission, number %v of the shard, is gone: the insert cannot be read",
				l.Fields["seq"])
		}
		return line + ": it was completed, and is to be done again"
	case check.OpDamaged:
		return line + fmt.Sprintf(": whatever was written is gone: %v", l.Fields["detail"])
	}
	fields, _ := json.Marshal(l.Fields)
	return line + fmt.Sprintf(": %s is undone: %s", l.Op, fields)
}
