package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/quern-queue/quern/engine"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/store"
)

// Item is a submission, a chunk, or a damage.
type Item struct {
	Kind       string         `json:"kind"` // submission, chunk, or damaged: something that cannot be read
	Submission string         `json:"submission,omitempty"`
	Chunk      *uint32        `json:"chunk,omitempty"`
	Seq        uint32         `json:"seq,omitempty"`
	Position   uint64         `json:"position,omitempty"` // of the journal, up to which the row is true
	Fields     map[string]any `json:"fields,omitempty"`
}

// The kinds of items.
const (
	KindSubmission = "submission"
	KindChunk      = "chunk"
)

// SubmissionOptions say which submissions are wanted. Work and Now are needed.
type SubmissionOptions struct {
	Options
	Queue      string
	Submission string // only this one; "": all
	States     []queue.SubmissionState
	Meta       queue.Meta
	Rows       bool // as the last checkpoint wrote them, without what the journal has since
	Exceptions bool // the chunks of them that something happened to: neither untouched nor simply done
}

// Submissions goes through the submissions of a queue: the open ones by the order of their inserts, then those that ended. They are as a
// start of the server would have them. If it could not open the queue, fn gets the failure first, and the submissions are as in the rows of
// the last checkpoint. fn gets each damage, and the rest is read. The directory is only read.
func Submissions(ctx context.Context, dir string, o SubmissionOptions, fn func(Item) error) error {
	var shard, opened, rows string
	return o.inCopy(dir, func(work string) (err error) {
		opened, rows = filepath.Join(work, "opened"), filepath.Join(work, "rows")
		if shard, err = shardOf(ctx, &o.Options, dir, filepath.Join(work, "catalogue"), o.Queue); err != nil {
			return err
		}
		err = o.copy(ctx, dir, rows, shard)
		if err == nil && !o.Rows {
			err = errors.Join(o.copy(ctx, dir, opened, catalogueName), o.copy(ctx, dir, opened, shard))
		}
		return err
	}, func(string) error { return o.list(ctx, shard, opened, rows, fn) })
}

// list goes through the submissions of one copy of the queue: the opened one if a start of the server would succeed, or else the other one.
func (o *SubmissionOptions) list(ctx context.Context, shard, opened, rows string, fn func(Item) error) error {
	if !o.Rows {
		if reason := o.takeUp(ctx, opened); reason == "" {
			rows = opened
		} else if err := fn(Item{Kind: OpDamaged, Fields: map[string]any{"detail": "the queue cannot be opened, so the following is what " +
			"the last checkpoint wrote: " + strings.ReplaceAll(reason, opened+string(filepath.Separator), "")}}); err != nil {
			return err
		}
	}
	now := queue.At(o.Now())
	l := listing{o: o, fn: fn, now: now, m: machine.New(0, reserver.Key{}, queue.DefaultSettings(), now)}
	return store.Submissions(ctx, filepath.Join(rows, shard, "store.db"), l.see)
}

// takeUp has the store of the queue, in a copy, take up its journal. The copy need not have other queues. It returns why that failed.
func (o *SubmissionOptions) takeUp(ctx context.Context, dir string) (reason string) {
	e, err := engine.Open(ctx, engine.Options{Dir: dir, Now: o.Now, Seed: rand.Uint64, BallastBytes: -1, RecountEvery: -1})
	if err != nil {
		return err.Error()
	}
	if err := errors.Join(e.Storage().Checkpoint(o.Queue), e.Close()); err != nil {
		for _, q := range e.Queues() {
			if q.Name == o.Queue && q.Quarantined != nil {
				return q.Quarantined.Reason
			}
		}
		return err.Error()
	}
	return ""
}

// listing goes through the rows of a store.
type listing struct {
	o  *SubmissionOptions
	m  *machine.Machine
	fn func(Item) error

	now queue.Time
}

func (l *listing) see(s store.Found) error {
	if s.Damage != "" {
		return l.damaged(s.Open.ID, s.Damage)
	}
	if s.Open.ID != 0 {
		return l.open(&s)
	}
	for i := range s.Ended {
		e := &s.Ended[i]
		if !l.named(e.ID) {
			continue
		}
		r, sub, err := machine.EndedRecord(e)
		if err != nil {
			if err := l.damaged(e.ID, err.Error()); err != nil {
				return err
			}
			continue
		}
		info := r.Info(l.o.Queue, r.Meta(), 0)
		if err := l.tell(r, info, func(index uint32) queue.Chunk { return machine.EndedChunk(r, sub, index) }); err != nil {
			return err
		}
	}
	return nil
}

// open takes the row of an open submission.
func (l *listing) open(s *store.Found) error {
	row := &s.Open
	if !l.named(row.ID) {
		return nil
	}
	if row.State == nil {
		return l.damaged(row.ID, "it has a row of what never changes, and none of what does")
	}
	if err := l.m.Recovery.Load(row.Spec, row.State); err != nil {
		return l.damaged(row.ID, err.Error())
	}
	r := l.m.LiveSeq(row.Seq)
	info := machine.Info(r, l.o.Queue)
	for index := range r.Tries {
		if l.waits(r, index) {
			info.Ready--
			info.Waiting++
		}
	}
	err := l.tell(r, info, func(index uint32) queue.Chunk {
		c := l.m.Chunk(r, index)
		if l.waits(r, index) {
			c.State, c.NotBefore = queue.ChunkWaiting, r.Tries[index].NotBefore
		}
		return c
	})
	l.m.Backlog.Remove(r.Sub) // it is not needed any more
	return err
}

// waits says whether a chunk waits for its next try. Its row has it among those that can be reserved; a start finds out.
func (l *listing) waits(r *machine.Record, index uint32) bool {
	return !r.Parked && r.Sub.IsAvailable(index) && r.Tries[index].NotBefore > l.now
}

// named says whether a submission is one that is asked for.
func (l *listing) named(id queue.SubmissionID) bool {
	return l.o.Submission == "" || l.o.Submission == id.String()
}

func (l *listing) damaged(id queue.SubmissionID, why string) error {
	if id != 0 && !l.named(id) {
		return nil
	}
	item := Item{Kind: OpDamaged, Fields: map[string]any{"detail": why}}
	if id != 0 {
		item.Submission = id.String()
	}
	return l.fn(item)
}

// tell passes a submission on, or its exceptions.
func (l *listing) tell(r *machine.Record, info queue.Submission, chunk func(uint32) queue.Chunk) error {
	filter := machine.Filter{States: l.o.States, Meta: l.o.Meta}
	if !filter.Matches(r) {
		return nil
	}
	item := Item{Kind: KindSubmission, Submission: r.ID.String(), Seq: r.Seq, Position: uint64(r.AppliedAt)}
	if !l.o.Exceptions {
		info.ID, info.Queue = 0, ""
		item.Fields = fieldsOf(info)
		item.Fields["state"], item.Fields["exceptions"] = info.State.String(), len(r.Tries)
		return l.fn(item)
	}
	for _, index := range slices.SortedFunc(maps.Keys(r.Tries), cmp.Compare) {
		c := chunk(index)
		item.Kind, item.Chunk, item.Fields = KindChunk, &c.Index, fieldsOf(c)
		delete(item.Fields, "index")
		item.Fields["state"] = c.State.String()
		if past, err := r.PastOf(index); err == nil && len(past) > 0 {
			item.Fields["past"] = len(past)
		}
		if err := l.fn(item); err != nil {
			return err
		}
	}
	return nil
}

// String is the item as a line.
func (i Item) String() string {
	line := i.Kind
	if i.Submission != "" {
		line += " " + i.Submission
	}
	if i.Chunk != nil {
		line += fmt.Sprintf("/%d", *i.Chunk)
	}
	if i.Position > 0 {
		line += fmt.Sprintf(" at %d", i.Position)
	}
	return line + " " + fieldsText(i.Fields)
}

// This file shows operations of the journal by reflection, so that a new one is shown without being named here.

// fieldsOf are the fields of an operation that are not zero, by their names in snake case.
func fieldsOf(op any) map[string]any {
	out := map[string]any{}
	addFields(out, reflect.Indirect(reflect.ValueOf(op)))
	return out
}

// fieldsText is fields as a line.
func fieldsText(fields map[string]any) string {
	text, _ := json.Marshal(fields) // they were made by fieldsOf
	return string(text)
}

func addFields(out map[string]any, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		switch {
		case !field.IsExported() || v.Field(i).IsZero():
		case field.Anonymous && v.Field(i).Kind() == reflect.Struct:
			addFields(out, v.Field(i))
		default:
			out[snake(field.Name)] = shown(v.Field(i))
		}
	}
}

// shown is a value as JSON has it. For bytes it is their number: contents and outputs do not belong on a screen.
func shown(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case queue.Time:
		return value.Std().UTC()
	case []byte:
		return fmt.Sprintf("%d bytes", len(value))
	case [16]byte:
		return fmt.Sprintf("%x", value)
	case fmt.Stringer:
		return value.String()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return shown(v.Elem())
	case reflect.Struct:
		out := map[string]any{}
		addFields(out, v)
		return out
	case reflect.Slice, reflect.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = shown(v.Index(i))
		}
		return list
	}
	return v.Interface()
}

// seqOf is the number of the submission that an operation of a part is about; 0: none.
func seqOf(op any) uint32 {
	v := reflect.Indirect(reflect.ValueOf(op)).FieldByName("Seq")
	if !v.IsValid() {
		return 0
	}
	return uint32(v.Uint())
}

// snake is a name in snake case: RunAt is run_at, and ID is id.
func snake(name string) string {
	var b strings.Builder
	before := false // the letter before was a small one
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 && before {
			b.WriteByte('_')
		}
		before = unicode.IsLower(c)
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
