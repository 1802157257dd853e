package check

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
	"github.com/quern-queue/quern/engine/store"
)

// Op is an operation of a queue's journal.
type Op struct {
	Position   uint64         `json:"position"` // of its batch
	At         time.Time      `json:"at"`       // when the first operation of the batch was decided
	Op         string         `json:"op"`       // insert, complete, return, end, ...; damaged: the batch cannot be read
	Submission string         `json:"submission,omitempty"`
	Fields     map[string]any `json:"fields,omitempty"`
}

// JournalOptions say which operations are wanted.
type JournalOptions struct {
	Options
	Queue      string
	Submission string // only those of this submission; "": of all
	After      uint64 // only those behind this position
}

// Journal goes through the operations in the journal of a queue. fn also gets damaged batches, and those behind them are read. The
// directory is only read, and the queue may be one that a server cannot open.
func Journal(ctx context.Context, dir string, o JournalOptions, fn func(Op) error) error {
	var shard string
	var ids map[uint32]queue.SubmissionID
	wanted := func(op Op) error {
		if o.Submission != "" && op.Submission != o.Submission && op.Op != OpDamaged {
			return nil
		}
		return fn(op)
	}
	return o.inCopy(dir, func(work string) (err error) {
		if shard, err = shardOf(ctx, &o.Options, dir, work, o.Queue); err != nil {
			return err
		}
		ids = store.OpenIDs(ctx, filepath.Join(dir, shard, "store.db"))
		return o.copy(ctx, dir, work, shard+"journal.db")
	}, func(work string) error {
		return sqlitelog.Salvage(ctx, filepath.Join(work, shard, "journal.db"), journal.Position(o.After),
			func(b sqlitelog.Batch) error { return Ops(&b, ids, wanted) })
	})
}

// shardOf is the folder of a queue, as the catalogue has it. A shard of several has to be named by its number: the first is in the
// catalogue under the name of the queue.
func shardOf(ctx context.Context, o *Options, dir, work, name string) (folder string, err error) {
	if err := o.copy(ctx, dir, work, catalogueName); err != nil {
		return "", err
	}
	whole, number := queue.CutShard(name)
	row, second := name, ""
	if number == 1 {
		row = whole
	} else if number == 0 {
		second = queue.ShardName(name, 2)
	}
	err = sqlitedb.Rows(ctx, filepath.Join(work, catalogueName), func(found sqlitedb.Row) error {
		if found.Text(1) == second {
			return fmt.Errorf("the queue %q has several shards: name one of them, as in %q", name, queue.ShardName(name, 1))
		}
		folder = fmt.Sprintf("shards/%04d/", found.Int(0))
		return nil
	}, "SELECT shard, name FROM queue WHERE name IN (?, ?)", row, second)
	if err == nil && folder == "" {
		err = fmt.Errorf("the data directory %s has no queue %q", dir, name)
	}
	return folder, err
}

// Ops calls fn for the operations of a batch, with their submissions. ids has the known ids by number, and Ops adds those that the batch
// inserts. A batch that cannot be read ends with an operation that is called damaged. The error is one of fn.
func Ops(b *sqlitelog.Batch, ids map[uint32]queue.SubmissionID, fn func(Op) error) error {
	r := reading{position: uint64(b.Position), ids: ids, fn: fn}
	why := b.Damage
	if why == "" {
		err := journal.Decode(b.Bytes, func(at queue.Time) { r.at = at.Std().UTC() }, &r)
		if err == nil || r.stop != nil {
			return r.stop
		}
		why = err.Error()
	}
	return fn(Op{Position: r.position, At: r.at, Op: OpDamaged, Fields: map[string]any{"detail": why}})
}

// OpDamaged is the operation that stands for the part of a batch that cannot be read.
const OpDamaged = "damaged"

// reading goes through a batch.
type reading struct {
	position uint64
	at       time.Time
	ids      map[uint32]queue.SubmissionID
	fn       func(Op) error
	stop     error // of fn
}

// tell passes an operation on.
func (r *reading) tell(name string, seq uint32, op any) error {
	out := Op{Position: r.position, At: r.at, Op: name, Fields: fieldsOf(op)}
	if id := r.ids[seq]; id != 0 {
		out.Submission = id.String()
	}
	r.stop = r.fn(out)
	return r.stop
}

// The methods of journal.Applier.

func (r *reading) ApplyEpoch(epoch uint32) error {
	return r.tell("epoch", 0, struct{ Epoch uint32 }{epoch})
}

func (r *reading) ApplyInsert(s *journal.Insert) error {
	r.ids[s.Seq] = s.ID
	return r.tell("insert", s.Seq, s)
}

func (r *reading) ApplyComplete(c journal.Completed) error { return r.tell("complete", c.Seq, c) }
func (r *reading) ApplyReturn(x journal.Returned) error    { return r.tell("return", x.Seq, x) }
func (r *reading) ApplyEnd(x journal.End) error            { return r.tell("end", x.Seq, x) }
func (r *reading) ApplyPriority(p journal.Priority) error  { return r.tell("priority", p.Seq, p) }

func (r *reading) ApplyPart(op journal.PartOp) error {
	name := strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", op), "*"), "journal."))
	return r.tell(name, seqOf(op), op)
}

// String is the operation as a line: position, time, name, submission and fields.
func (o Op) String() string {
	line := fmt.Sprintf("%d %s %s", o.Position, o.At.Format(time.RFC3339Nano), o.Op)
	if o.Submission != "" {
		line += " " + o.Submission
	}
	return line + " " + fieldsText(o.Fields)
}
