package journal

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quern-queue/quern/engine/queue"
)

// list is an Applier that keeps the ops: an epoch (uint32), *Insert, Completed, Returned, End, Priority, Redrive, Rule,
// Move or *Bulk each.
type list struct {
	ops []any
	err error // returned once `ops` is `stop` long
	n   int
}

func (l *list) add(op any) error {
	l.ops = append(l.ops, op)
	if l.err != nil && len(l.ops) == l.n {
		return l.err
	}
	return nil
}

func (l *list) ApplyEpoch(epoch uint32) error   { return l.add(epoch) }
func (l *list) ApplyInsert(s *Insert) error     { return l.add(new(*s)) }
func (l *list) ApplyComplete(c Completed) error { return l.add(c) }
func (l *list) ApplyReturn(r Returned) error    { return l.add(r) }
func (l *list) ApplyEnd(x End) error            { return l.add(x) }
func (l *list) ApplyPriority(p Priority) error  { return l.add(p) }
func (l *list) ApplyPart(op PartOp) error {
	switch own := op.(type) {
	case *Contents:
		return l.add(own.Clone())
	case *Replacement:
		return l.add(&Replacement{own.Seq, own.Index, own.ID, append([]byte{}, own.Bytes...)})
	case *Output:
		return l.add(&Output{own.Seq, own.Index, append([]byte{}, own.Bytes...)})
	}
	return l.add(op)
}

func anyBackoff(t *rapid.T) queue.Backoff {
	ms := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, queue.BackoffCap.Most).Draw(t, name)) * time.Millisecond
	}
	b := queue.Backoff{
		Kind: queue.BackoffKind(rapid.IntRange(0, 3).Draw(t, "kind")), Jitter: queue.Jitter(rapid.IntRange(0, 2).Draw(t, "jitter")),
		Base: ms("base"), Cap: ms("cap"), Delays: queue.NewDelays(rapid.SliceOfN(rapid.Uint32(), 0, queue.MaxDelays).Draw(t, "delays")),
	}
	if rapid.Bool().Draw(t, "factor") {
		b.Factor = rapid.Float64Range(1, 100).Draw(t, "factor")
	}
	return b
}

// encode writes the ops as the shard does: neighbouring completions in one call.
func encode(epoch uint32, at queue.Time, ops []any) []byte {
	var e Encoder
	e.Reset(epoch, at)
	encodeInto(&e, ops)
	return e.Bytes()
}

func encodeInto(e *Encoder, ops []any) {
	var run []Completed
	for i, op := range ops {
		if c, ok := op.(Completed); ok {
			run = append(run, c)
			if i+1 < len(ops) {
				if _, more := ops[i+1].(Completed); more {
					continue
				}
			}
			e.Complete(run)
			run = nil
			continue
		}
		switch op := op.(type) {
		case Redrive:
			e.Redrive(op)
		case Move:
			e.Move(op)
		case *Bulk:
			e.Bulk(op)
		case Rule:
			e.Rule(op)
		case *Schedule:
			e.Schedule(op)
		case *Act:
			e.Act(op)
		case Priority:
			e.Priority(op)
		case uint32:
			e.Epoch(op)
		case *Held:
			e.Held(op)
		case *Set:
			e.Set(op)
		case *Snapshot:
			e.Snapshot(op)
		case *Replacement:
			e.Replacement(op)
		case *Awaited:
			e.Awaited(op)
		case *Deletion:
			e.Deletion(op)
		case *Contents:
			e.Contents(op)
		case *Output:
			e.Output(op)
		case *Insert:
			e.Insert(op)
		case Returned:
			e.Return(op)
		case End:
			e.End(op)
		}
	}
}

func decode(batch []byte) (at queue.Time, ops []any, err error) {
	var l list
	err = Decode(batch, func(t queue.Time) { at = t }, &l)
	return at, l.ops, err
}

func describe(ops []any) string {
	var b strings.Builder
	for i, op := range ops {
		if s, ok := op.(*Insert); ok {
			op = *s
		}
		fmt.Fprintf(&b, "\n  %d %T%+v", i, op, op)
	}
	return b.String()
}

// numbers of every size, so that every length of varint is seen
func anyUint32(t *rapid.T, name string) uint32 {
	return rapid.Uint32().Draw(t, name) >> rapid.IntRange(0, 31).Draw(t, name+" shift")
}

func anyUint64(t *rapid.T, name string) uint64 {
	return rapid.Uint64().Draw(t, name) >> rapid.IntRange(0, 63).Draw(t, name+" shift")
}

func anyTime(t *rapid.T, name string) queue.Time {
	return queue.Time(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000), rapid.Int64()).Draw(t, name))
}

func anyText(t *rapid.T, name string) string {
	return rapid.OneOf(rapid.Just(""), rapid.StringN(0, 20, 60), rapid.StringN(200, 300, -1)).Draw(t, name)
}

func anyMeta(t *rapid.T) queue.Meta {
	keys := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9_.-]{1,12}`), 0, queue.MaxMetaKeys, rapid.ID[string]).Draw(t, "keys")
	var entries []queue.MetaEntry
	for _, key := range keys {
		value := queue.IntValue(rapid.Int64().Draw(t, "value"))
		if rapid.Bool().Draw(t, "is text") {
			value = queue.StringValue(rapid.StringN(0, 10, 40).Draw(t, "value"))
		}
		entries = append(entries, queue.MetaEntry{Key: key, Value: value})
	}
	meta, err := queue.NewMeta(entries)
	if err != nil {
		t.Fatal(err)
	}
	return meta
}

func anyInsert(t *rapid.T) *Insert {
	chunks := max(anyUint32(t, "chunks"), 1)
	s := &Insert{
		Seq: anyUint32(t, "seq"), ID: queue.SubmissionID(anyUint64(t, "id")), Chunks: chunks, Key: anyUint64(t, "order"),
		Priority: rapid.Int64Range(-queue.MaxPriority, queue.MaxPriority).Draw(t, "priority"),
		Meta:     anyMeta(t), Prefix: anyText(t, "prefix"), Template: anyText(t, "template"), Group: anyText(t, "group"),
		Trace: anyText(t, "trace"), OperationsPerChunk: max(anyUint32(t, "operations"), 1), RunAt: anyTime(t, "run at"),
		DeadDeadline: anyTime(t, "dead deadline"), MaxAttempts: rapid.Uint16().Draw(t, "attempts"),
		OnExhausted: queue.OnExhausted(rapid.IntRange(0, int(queue.Skip)).Draw(t, "on exhausted")),
		Inline:      rapid.Bool().Draw(t, "inline"), Attachment: rapid.Bool().Draw(t, "attachment"), IdempotencyKey: anyText(t, "key"),
		MaxFailed: anyUint32(t, "max failed"),
	}
	if rapid.Bool().Draw(t, "is scheduled") {
		s.Schedule, s.Scheduled = rapid.StringN(1, 20, 60).Draw(t, "schedule"), anyTime(t, "scheduled")
	}
	if rapid.Bool().Draw(t, "retry_backoff") {
		s.RetryBackoff = new(anyBackoff(t))
	}
	s.Bytes = anyUint32(t, "bytes")
	s.AttemptTimeout = time.Duration(rapid.Int64Range(0, queue.MaxReservation.Milliseconds()).Draw(t, "timeout")) * time.Millisecond
	if rapid.Bool().Draw(t, "unique") {
		window := rapid.Int64Range(0, queue.MaxUniqueWindow.Milliseconds()).Draw(t, "window")
		s.Unique = &queue.Unique{Key: anyText(t, "unique key"), Scope: anyText(t, "scope"), For: time.Duration(window) * time.Millisecond}
	}
	if rapid.Bool().Draw(t, "forwarded") {
		s.Origin = &queue.Origin{
			Source: anyUint64(t, "source"), Number: anyUint64(t, "number"), Queue: anyText(t, "from"), First: anyUint32(t, "first"),
			Chunk:    queue.ChunkID{Submission: queue.SubmissionID(anyUint64(t, "from id")), Index: anyUint32(t, "from index")},
			Attempts: anyUint32(t, "tries"), Died: anyTime(t, "died"), Error: anyText(t, "last error"),
		}
	}
	if (s.Inline || s.Attachment) && rapid.Bool().Draw(t, "in blobs") {
		s.Blobs = &Blobs{Epoch: anyUint32(t, "of epoch"), Size: anyUint64(t, "size")}
		copy(s.Blobs.Sum[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "sum"))
		for first := uint32(0); s.Inline && len(s.Blobs.Firsts) < rapid.IntRange(1, 4).Draw(t, "parts"); first += 1000 {
			s.Blobs.Firsts = append(s.Blobs.Firsts, first)
		}
	}
	if s.IdempotencyKey != "" {
		copy(s.Fingerprint[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "fingerprint"))
	}
	if len(s.Meta) == 0 {
		s.Meta = nil
	}
	return s
}

func anyBytes(t *rapid.T, name string) []byte { return []byte(anyText(t, name)) }

func anyContents(t *rapid.T) *Contents {
	c := &Contents{Seq: anyUint32(t, "seq")}
	for range rapid.IntRange(0, 3).Draw(t, "pages") {
		c.Pages = append(c.Pages, Page{anyUint32(t, "first"), anyBytes(t, "page")})
	}
	if rapid.Bool().Draw(t, "is attached") {
		c.Attachment = anyBytes(t, "attachment")
	}
	return c
}

func anyEpoch(t *rapid.T) uint32 {
	return rapid.OneOf(rapid.Uint32Range(1, 4), rapid.Uint32()).Draw(t, "epoch")
}

func anyIndexes(t *rapid.T) []uint32 {
	indexes := rapid.SliceOfNDistinct(rapid.Uint32(), 1, 20, rapid.ID[uint32]).Draw(t, "indexes")
	slices.Sort(indexes)
	return indexes
}

func anyHeld(t *rapid.T) *Held {
	h := &Held{Consumer: anyText(t, "consumer"), Attached: rapid.Bool().Draw(t, "attached"), Seen: anyTime(t, "seen")}
	if h.Attached {
		h.Incarnation = anyText(t, "incarnation")
	}
	for range rapid.OneOf(rapid.IntRange(0, 3), rapid.Just(MaxHeld)).Draw(t, "chunks") {
		h.Chunks = append(h.Chunks, HeldChunk{Seq: anyUint32(t, "seq"), Index: anyUint32(t, "index"), Epoch: anyEpoch(t),
			Sequence: anyUint64(t, "sequence"), Reserved: anyTime(t, "reserved"), Deadline: anyTime(t, "deadline")})
	}
	return h
}

func anySet(t *rapid.T) *Set {
	s := &Set{Kind: SetKind(rapid.IntRange(0, 4).Draw(t, "kind")), Version: anyUint32(t, "version"), Changed: anyTime(t, "changed")}
	switch s.Kind {
	case SetQueue:
		s.Version = max(s.Version, 1)
		s.Settings = anyText(t, "settings")
	case SetValue, SetKey:
		s.Entry, s.Demand = queue.MetaEntry{Key: "k"}, queue.NoSettings()
		switch {
		case s.Kind == SetKey:
		case rapid.Bool().Draw(t, "text"):
			s.Entry.Value = queue.StringValue(anyText(t, "value"))
		default:
			s.Entry.Value = queue.IntValue(rapid.Int64().Draw(t, "value"))
		}
		if s.Version > 0 {
			s.Demand.Weight = uint32(rapid.IntRange(1, queue.MaxWeight).Draw(t, "weight"))
		}
		if s.Version > 0 && rapid.Bool().Draw(t, "limited") {
			s.Demand.Limit = uint32(rapid.IntRange(0, queue.MaxValueLimit).Draw(t, "limit"))
		}
		if s.Version > 0 && rapid.Bool().Draw(t, "rated") {
			s.Demand.Rate = queue.Rate{Max: uint32(rapid.IntRange(1, queue.MaxRate).Draw(t, "rate")),
				Per: time.Duration(rapid.Int64Range(queue.MinPer.Milliseconds(), queue.MaxPer.Milliseconds()).Draw(t, "per")) * time.Millisecond}
		}
	case SetStrategy:
		s.Name = "n" + anyText(t, "name")
		if s.Version > 0 {
			s.Text = "t" + anyText(t, "text")
		}
	case SetGroup:
		s.Name = "n" + anyText(t, "name")
		if s.Version > 0 && rapid.Bool().Draw(t, "moves") {
			s.Moves = GroupMoves{Unset: rapid.Bool().Draw(t, "unset"), To: rapid.Uint8Range(1, queue.MaxQueueShards).Draw(t, "to"), Last: rapid.Uint32().Draw(t, "last")}
			s.Moves.Gone = rapid.Bool().Draw(t, "gone")
		}
		if s.Deleted = rapid.Bool().Draw(t, "deleted"); s.Version > 0 && !s.Deleted {
			s.Text = anyText(t, "text")
			s.Quota.Waiting = rapid.Uint64Range(0, queue.MaxQuota).Draw(t, "waiting")
			s.Quota.Submissions = rapid.Uint64Range(0, queue.MaxQuota).Draw(t, "submissions")
			s.Quota.Bytes = rapid.Uint64Range(0, queue.MaxQuota).Draw(t, "bytes")
		}
	}
	return s
}

func anyOps(t *rapid.T) (ops []any) {
	for range rapid.IntRange(0, 12).Draw(t, "ops") {
		switch rapid.IntRange(0, 16).Draw(t, "op") {
		case 16:
			s := &Snapshot{Kept: rapid.Bool().Draw(t, "kept")}
			if s.Kept && rapid.Bool().Draw(t, "copied") {
				s.Position, s.Key = 1+Position(anyUint32(t, "position")), "k"+anyText(t, "key")
				s.Size, s.Sum = uint64(anyUint32(t, "size")), anyText(t, "sum")
			}
			ops = append(ops, s)
		case 15:
			ops = append(ops, anySet(t))
		case 14:
			ops = append(ops, anyHeld(t))
		case 13:
			ops = append(ops, anyContents(t))
		case 12:
			ops = append(ops, &Output{Seq: anyUint32(t, "seq"), Index: anyUint32(t, "index"), Bytes: anyBytes(t, "output")})
		case 11:
			ops = append(ops, &Bulk{
				ID: queue.SubmissionID(anyUint64(t, "id")), Step: anyUint64(t, "step"), State: queue.BulkState(rapid.IntRange(0, 3).Draw(t, "state")),
				Counts: queue.BulkCounts{Matched: anyUint64(t, "matched"), Done: anyUint64(t, "done"), Unchanged: anyUint64(t, "unchanged"), Refused: anyUint64(t, "refused")},
				After:  queue.ChunkID{Submission: queue.SubmissionID(anyUint64(t, "after")), Index: anyUint32(t, "after index")},
				Ended:  anyTime(t, "ended"), Failure: anyText(t, "failure"), Request: anyText(t, "request"),
				Walk:    queue.BulkWalk{Examined: anyUint64(t, "examined"), ToExamine: anyUint64(t, "to examine")},
				EndedBy: anyText(t, "ended by"),
			})
		case 10:
			m := Move{Kind: MoveKind(rapid.IntRange(0, int(endOfMoves)-1).Draw(t, "kind")), Indexes: anyIndexes(t)}
			if !m.Kind.ofEntries() {
				m.Seq, m.ID = anyUint32(t, "seq"), queue.SubmissionID(anyUint64(t, "id"))
			}
			if m.Kind.ofEntries() || m.Kind.enters() {
				m.Number = anyUint64(t, "number")
			}
			if m.Kind.enters() {
				m.Queue = anyText(t, "to")
			}
			if m.Kind == MoveRenumber {
				m.Was = anyUint64(t, "was")
			}
			ops = append(ops, m)
		case 8:
			ops = append(ops, anyRule(t))
		case 9:
			ops = append(ops, anySchedule(t))
		case 7:
			ops = append(ops, Redrive{Seq: anyUint32(t, "seq"), Indexes: anyIndexes(t)})
		case 6:
			ops = append(ops, Priority{Seq: anyUint32(t, "seq"), Priority: rapid.Int64().Draw(t, "priority")})
		case 0:
			ops = append(ops, anyEpoch(t))
		case 1:
			ops = append(ops, anyInsert(t))
		case 2:
			r := Returned{
				Seq: anyUint32(t, "seq"), Index: anyUint32(t, "index"), Epoch: anyEpoch(t), Sequence: anyUint64(t, "sequence"),
				Reason: rapid.SampledFrom([]ReturnReason{Failed, Expired, Lost, Dead, Skipped, Snoozed, Overdue, Cancelled}).Draw(t, "reason"), Attempts: rapid.Uint16().Draw(t, "attempts"),
				Expiries: rapid.Uint8().Draw(t, "expiries"), NotBefore: anyTime(t, "not before"), Error: anyText(t, "error"),
				Held: anyUint32(t, "held"), Consumer: anyText(t, "consumer"),
			}
			r.Lost = (r.Reason == Dead || r.Reason == Skipped) && rapid.Bool().Draw(t, "lost")
			ops = append(ops, r)
		case 3:
			state := rapid.IntRange(int(queue.Completed), int(queue.Expired)).Draw(t, "state")
			ops = append(ops, End{Seq: anyUint32(t, "seq"), State: queue.SubmissionState(state), Reason: anyText(t, "reason")})
		default:
			ops = append(ops, anyRun(t)...)
		}
	}
	return ops
}

// anyRun is completions of a few submissions and epochs, so that there are runs of every length.
func anyRun(t *rapid.T) (ops []any) {
	seq, epoch, sequence := rapid.Uint32Range(1, 2), rapid.Uint32Range(1, 2), anyUint64(t, "sequence")
	for range rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 3*maxRun)).Draw(t, "run") {
		sequence += uint64(rapid.Int64Range(-3, 100).Draw(t, "step"))
		ops = append(ops, Completed{Seq: 1, Index: uint32(sequence), Epoch: 1, Sequence: sequence})
	}
	for range rapid.IntRange(0, 4).Draw(t, "changes") { // the rest of the run is of another submission or epoch
		at := rapid.IntRange(0, len(ops)-1).Draw(t, "change")
		newSeq, newEpoch := seq.Draw(t, "seq"), epoch.Draw(t, "epoch")
		for i := at; i < len(ops); i++ {
			c := ops[i].(Completed)
			c.Seq, c.Epoch = newSeq, newEpoch
			ops[i] = c
		}
	}
	return ops
}

func sameOps(a, b []any) bool {
	return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b))
}

var errStop = errors.New("stop here")

// The first error of the Applier ends the decoding, and Decode returns it, also in the middle of a run.
func TestDecodeStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	ops := []any{uint32(2), done(1, 1, 2, 1), done(1, 2, 2, 2), done(1, 3, 2, 3), End{Seq: 1, State: queue.Failed}}
	batch := encode(2, 5, ops)
	for n := 1; n <= len(ops); n++ {
		l := list{err: errStop, n: n}
		err := Decode(batch, func(queue.Time) {}, &l)
		if !errors.Is(err, errStop) || !sameOps(l.ops, ops[:n]) {
			t.Errorf("an error at op %d: Decode = %v after%s\nwant %v after%s", n, err, describe(l.ops), errStop, describe(ops[:n]))
		}
		d := NewDecoder(batch)
		l = list{err: errStop, n: n}
		for more := true; more; {
			more, _ = d.Step(&l)
		}
		if more, err := d.Step(&l); more || !errors.Is(err, errStop) || len(l.ops) != n {
			t.Errorf("an error at op %d: a further Step = %v, %v and %d ops; want false, %v and %d", n, more, err, len(l.ops), errStop, n)
		}
	}
}

func done(seq, index, epoch uint32, sequence uint64) Completed {
	return Completed{Seq: seq, Index: index, Epoch: epoch, Sequence: sequence}
}
