package check

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// Version is the form of a report as JSON. Fields may be added without raising it.
const Version = 1

// maxFindings is how many faults are listed; the others are counted.
const maxFindings = 10_000

// Report is the result of a check.
type Report struct {
	Version  int       `json:"version"`
	Data     string    `json:"data,omitempty"` // the directory; "": a backup was checked
	Checked  time.Time `json:"checked"`
	Whole    bool      `json:"whole"` // nothing is damaged or missing
	Queues   []Queue   `json:"queues"`
	Files    []File    `json:"files"`
	Faults   int       `json:"faults"`   // how many there are
	Findings []Finding `json:"findings"` // the first 10,000 of them
}

// Queue is how much there is in a queue.
type Queue struct {
	Name        string `json:"name"`
	Quarantined bool   `json:"quarantined,omitempty"` // it cannot be opened: nothing below is known
	Submissions uint64 `json:"submissions"`
	Open        uint64 `json:"open"`
	Contents    uint64 `json:"contents"`
	Attachments uint64 `json:"attachments"`
	Outputs     uint64 `json:"outputs"`
	Bytes       uint64 `json:"bytes"`          // of these three
	Counters    uint64 `json:"counters"`       // that were compared with what they count
	Lost        uint64 `json:"lost,omitempty"` // contents, attachments and outputs that a repair has told of
}

// File is a database.
type File struct {
	Path string `json:"path"` // below the data directory
	Rows int64  `json:"rows"` // whose checksums were compared
}

// Finding is something that is damaged, missing or wrong.
type Finding struct {
	Queue      string `json:"queue,omitempty"`
	Submission string `json:"submission,omitempty"`
	Chunk      *int64 `json:"chunk,omitempty"`
	File       string `json:"file,omitempty"`
	Table      string `json:"table,omitempty"`
	Row        int64  `json:"row,omitempty"`
	Detail     string `json:"detail"`
}

func newReport(dir string, now time.Time) *Report {
	return &Report{Version: Version, Data: dir, Checked: now.UTC(), Queues: []Queue{}, Files: []File{}, Findings: []Finding{}}
}

func (r *Report) add(f Finding) {
	if r.Faults++; len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, f)
	}
}

func queueOf(v engine.VerifiedQueue) Queue {
	return Queue{Name: v.Name, Submissions: v.Submissions, Open: v.Open, Contents: v.Kept.Contents, Attachments: v.Kept.Attachments,
		Outputs: v.Kept.Outputs, Bytes: v.Kept.Bytes, Counters: v.Counters, Lost: v.Kept.Lost}
}

func findingOf(f engine.Fault) Finding {
	out := Finding{Queue: f.Queue, Detail: f.What}
	if f.Submission != 0 {
		out.Submission = f.Submission.String()
	}
	if f.Chunk != engine.NoChunk {
		out.Chunk = &f.Chunk
	}
	return out
}

func damageOf(file string, d sqlitedb.Damage) Finding {
	return Finding{File: filepath.ToSlash(file), Table: d.Table, Row: d.Row, Detail: d.Detail}
}

// String is the finding as a line.
func (f Finding) String() string {
	var where []string
	for _, part := range [][2]string{{"queue ", f.Queue}, {"submission ", f.Submission}, {"", f.File}, {"table ", f.Table}} {
		if part[1] != "" {
			where = append(where, part[0]+part[1])
		}
	}
	if f.Chunk != nil {
		where = append(where, fmt.Sprintf("chunk %d", *f.Chunk))
	}
	if f.Row != 0 {
		where = append(where, fmt.Sprintf("row %d", f.Row))
	}
	if len(where) == 0 {
		return f.Detail
	}
	return strings.Join(where, ", ") + ": " + f.Detail
}
