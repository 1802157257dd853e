package repair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/check"
	"github.com/quern-queue/quern/engine/store"
)

// Version is the form of a report as JSON. Fields may be added without raising it.
const Version = 1

// maxLost is how many losses are listed; the others are counted.
const maxLost = 10_000

// Report has the repairs and the losses.
type Report struct {
	Version  int           `json:"version"`
	Data     string        `json:"data"`          // the directory as it was, and is
	To       string        `json:"to,omitempty"`  // the directory that was made; "": nothing needed a repair
	Old      string        `json:"old,omitempty"` // of a repair in place: the damaged directory
	Files    []File        `json:"files"`         // that were made of the readable parts of damaged ones
	Left     []Rows        `json:"left"`          // rows of them that could not be kept
	Journals []Journal     `json:"journals"`      // that were cut off
	Noted    int           `json:"noted"`         // contents, attachments and outputs whose loss was noted in the store
	Losses   int           `json:"losses"`        // how many there are
	Lost     []Lost        `json:"lost"`          // the first 10,000 of them
	Check    *check.Report `json:"check"`         // of the copy, or of a directory that needed no repair: the damage that is left
}

func newReport(data string) *Report {
	return &Report{Version: Version, Data: data, Journals: []Journal{}, Files: []File{}, Left: []Rows{}, Lost: []Lost{}}
}

func (r *Report) repaired() bool { return len(r.Journals)+len(r.Files)+r.Noted > 0 }

// File is a damaged database of which a new one was made.
type File struct {
	Queue  string `json:"queue,omitempty"` // none: it is the catalogue
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Rows are those of a database that could not be kept.
type Rows struct {
	Queue  string `json:"queue,omitempty"`
	File   string `json:"file"` // store.db or quern.db
	Table  string `json:"table"`
	Row    int64  `json:"row,omitempty"`
	Upto   *int64 `json:"upto,omitempty"` // it is some of the rows from Row to this one
	All    bool   `json:"all,omitempty"`  // nothing of the table can be read
	Detail string `json:"detail"`
}

// String is the rows as a line.
func (l *Rows) String() string {
	where := fmt.Sprintf("row %d", l.Row)
	switch {
	case l.All:
		where = "all rows"
	case l.Upto != nil:
		where = fmt.Sprintf("rows between %d and %d", l.Row, *l.Upto)
	}
	file := l.File
	if l.Queue != "" {
		file = "queue " + l.Queue + ", " + file
	}
	return fmt.Sprintf("%s, table %s, %s: %s", file, l.Table, where, l.Detail)
}

// Journal is the journal of a queue that was cut off before its damage.
type Journal struct {
	Queue      string `json:"queue"`
	Reason     string `json:"reason"`     // what was wrong with it
	Checkpoint uint64 `json:"checkpoint"` // the position that the store holds
	Kept       uint64 `json:"kept"`       // the last position that could be kept; positions up to Checkpoint are kept by the store anyway
	Unreadable uint64 `json:"unreadable"` // how many batches behind it could not be read, as far as that is known
}

// Lost is something that was written, and is gone.
type Lost struct {
	Queue    string     `json:"queue"`
	Position uint64     `json:"position,omitempty"` // of its batch, if it was in a journal
	At       *time.Time `json:"at,omitempty"`
	// Of a journal: insert, complete, return, end, ...; damaged: it cannot be read. Of a store: insert: the submission is gone; state: all
	// of its chunks are to be done again; ended: it had ended, and is gone; content, attachment, output: the submission lacks it. settings:
	// the queue has those of a new one; queue: everything in it is gone.
	Op         string         `json:"op"`
	Seq        uint32         `json:"seq,omitempty"`        // its number in the shard, where the id is not known
	Submission string         `json:"submission,omitempty"` // none if its insert cannot be read: then the fields have its number
	Chunk      *uint32        `json:"chunk,omitempty"`
	Fields     map[string]any `json:"fields,omitempty"`
}

// String is the loss as a line.
func (l *Lost) String() string {
	if l.Position == 0 {
		return l.ofStore()
	}
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
	case "set":
		return line + ": what was set for " + l.target() + " is undone"
	case check.OpDamaged:
		return line + fmt.Sprintf(": whatever was written is gone: %v", l.Fields["detail"])
	}
	fields, _ := json.Marshal(l.Fields)
	return line + fmt.Sprintf(": %s is undone: %s", l.Op, fields)
}

// target is the thing that a setting was for.
func (l *Lost) target() string {
	if entry, is := l.Fields["entry"].(map[string]any); is {
		return fmt.Sprintf("the value %v of %q", entry["value"], entry["key"])
	}
	if name, is := l.Fields["name"]; is {
		return fmt.Sprintf("the strategy %q, version %v,", name, l.Fields["version"])
	}
	return "the queue"
}

// several describes submissions that were lost with a page.
func (l *Lost) several(which string) string {
	return fmt.Sprintf(": %v %s submissions are gone, with numbers of the shard from %v to %v", l.Fields["submissions"], which,
		l.Fields["first_seq"], l.Fields["last_seq"])
}

// ofStore is the line of a loss from a store.
func (l *Lost) ofStore() string {
	line := "queue " + l.Queue
	switch {
	case l.Submission != "":
		line += ", submission " + l.Submission
	case l.Seq != 0:
		line += fmt.Sprintf(", submission number %d of the shard", l.Seq)
	}
	if l.Chunk != nil {
		line += fmt.Sprintf(", chunk %d", *l.Chunk)
	}
	switch l.Op {
	case "insert":
		if l.Submission == "" && l.Seq == 0 {
			return line + l.several("open")
		}
		return line + ": it was inserted, and is gone"
	case "state":
		return line + ": its state is lost: all of its chunks are to be done again"
	case "ended":
		if l.Submission == "" {
			return line + l.several("ended")
		}
		return line + ": it had ended, and is gone"
	case "content", "attachment":
		return line + ": its " + l.Op + " is lost"
	case "output":
		if l.Chunk == nil {
			return line + fmt.Sprintf(": %v outputs are lost", l.Fields["outputs"])
		}
		return line + ": its output is lost"
	case "keys":
		return line + ": idempotency keys are lost: a repeat of an insert that came with one of them inserts again"
	case "settings":
		return line + fmt.Sprintf(": its name and settings are lost; it has the files of shard %v, and the settings of a new queue",
			l.Fields["shard"])
	case "queue":
		return line + fmt.Sprintf(": it cannot be opened, and is empty now: %v", l.Fields["detail"])
	}
	return line + ": " + l.Op
}

// mostRounds is how often the copy is looked at. The first look notes losses, and empties a queue that does not open. So the second look
// finds nothing, except in queues that an emptied one kept the first from looking at.
const mostRounds = 3

// losses looks at the copy, notes the losses of submissions in its stores, and empties queues that do not open although they were repaired.
// The last check names the damage that it can do nothing about.
func (r *repairing) losses(ctx context.Context) error {
	if !slices.ContainsFunc(r.files, func(q *queueFiles) bool { return q.changed }) && len(r.report.Files) == 0 {
		found, _, err := r.look(ctx)
		if err != nil || len(found) == 0 {
			return err
		}
	}
	for range mostRounds {
		found, report, err := r.look(ctx)
		if err != nil {
			return err
		}
		emptied, err := r.emptyClosed(ctx, report)
		if err != nil {
			return err
		}
		for _, q := range r.files {
			if err := r.note(ctx, q, found[q.name]); err != nil {
				return fmt.Errorf("queue %s: %w", q.name, err)
			}
		}
		if !emptied && len(found) == 0 {
			return nil
		}
	}
	return nil
}

// look checks the copy, and returns the losses by queue.
func (r *repairing) look(ctx context.Context) (found map[string][]engine.Fault, report *check.Report, err error) {
	found = map[string][]engine.Fault{}
	o := r.o
	o.Opened, o.Fault = nil, func(f engine.Fault) {
		if f.Loss.Kind != 0 {
			found[f.Queue] = append(found[f.Queue], f)
		}
	}
	report, err = check.Dir(ctx, r.dir, o)
	return found, report, err
}

// emptyClosed empties the queues that a server cannot open although they were repaired.
func (r *repairing) emptyClosed(ctx context.Context, report *check.Report) (some bool, err error) {
	for _, q := range r.files {
		at := slices.IndexFunc(report.Queues, func(of check.Queue) bool { return of.Name == q.name })
		closed := len(report.Queues) == 0 || at >= 0 && report.Queues[at].Quarantined
		if !closed || !q.changed {
			continue
		}
		reason := "it does not open"
		for i := range report.Findings {
			if f := &report.Findings[i]; f.Queue == q.name || f.Queue == "" && f.File == "" {
				reason = f.Detail
			}
		}
		if err := r.empty(ctx, q, reason); err != nil {
			return some, fmt.Errorf("queue %s: %w", q.name, err)
		}
		some = true
	}
	return some, nil
}

// note stores the losses of a queue's submissions, so that later checks know them, and adds them to the report.
func (r *repairing) note(ctx context.Context, q *queueFiles, found []engine.Fault) (err error) {
	if len(found) == 0 {
		return nil
	}
	s, err := store.Open(ctx, filepath.Join(q.folder, "store.db"), store.Options{Identity: q.id})
	if err != nil {
		return ctx.Err() // the check names it
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	list, err := store.Losses(ctx, s)
	if err != nil {
		return err
	}
	q.changed = true
	for i := range found {
		f := &found[i]
		r.lost = append(r.lost, lostOf(f)...)
		if n := len(list); n > 0 && joins(&list[n-1], &f.Loss) {
			list[n-1].Count++
			continue
		}
		list = slices.DeleteFunc(list, func(l store.Loss) bool { // counted again, with more
			return l.Kind == store.LostOutputs && f.Loss.Kind == l.Kind && l.Seq == f.Loss.Seq
		})
		list = append(list, f.Loss)
	}
	r.report.Noted += len(found)
	return store.PutLosses(ctx, s, list)
}

// joins says whether a lost content comes right behind the previous lost ones.
func joins(last, next *store.Loss) bool {
	return last.Kind == store.LostContent && next.Kind == last.Kind && next.Seq == last.Seq && next.First == last.First+last.Count
}

// lostOf is a fault as losses of the report: one, or for outputs, one for each that is known.
func lostOf(f *engine.Fault) []Lost {
	l := Lost{Queue: f.Queue, Submission: f.Submission.String()}
	switch f.Loss.Kind {
	case store.LostContent:
		l.Op, l.Chunk = "content", &f.Loss.First
	case store.LostAttachment:
		l.Op = "attachment"
	case store.LostOutputs:
		l.Op = "output"
		if len(f.Chunks) == 0 {
			l.Fields = map[string]any{"outputs": f.Loss.Count}
			break
		}
		var all []Lost
		for i := range f.Chunks {
			one := l
			one.Chunk = &f.Chunks[i]
			all = append(all, one)
		}
		return all
	}
	return []Lost{l}
}
