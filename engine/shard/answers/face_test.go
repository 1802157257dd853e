package answers

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/durations"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/measure"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/machine"
	"github.com/quern-queue/quern/engine/shard/rules"
	"github.com/quern-queue/quern/engine/shard/shell/shelltest"
	"github.com/quern-queue/quern/engine/shard/trouble"
	"github.com/quern-queue/quern/engine/store"
	"github.com/quern-queue/quern/engine/strategy"
)

var key = reserver.Key{K0: 1, K1: 2}

// desk is a shell with its answers.
type desk struct {
	*shelltest.Shell
	answers *Answers
	rules   *rules.Rules
}

func open(t *testing.T) *desk {
	t.Helper()
	s := shelltest.New(t)
	part := rules.NewPart(s.Machine)
	s.Machine.Joined = machine.Joined{Parts: []machine.Part{part}, Rules: part}
	q := s.Queue()
	r := rules.Face(shelltest.Door(s, part), trouble.New(q.Logger, q.Seed))
	a := New(s, q, key, r, measure.New([]float64{1}), new(durations.Kept))
	a.Bytes = fromStore{s.Store()}
	return &desk{s, a, r}
}

// fromStore reads contents and attachments that have rows of their own in the store.
type fromStore struct{ rows *store.Store }

func (x fromStore) Chunks(ctx context.Context, r *machine.Record, indexes []uint32, most int) ([][]byte, error) {
	return x.rows.ReadContents(ctx, r.Seq, indexes, most)
}

func (x fromStore) Attachment(ctx context.Context, r *machine.Record) ([]byte, error) {
	return x.rows.ReadAttachment(ctx, r.Seq)
}

// inline inserts a submission with these contents, and writes them, but for those that are lost.
func (d *desk) inline(attachment string, lost bool, contents ...string) *machine.Record {
	d.T.Helper()
	n := queue.NewSubmission{Chunks: queue.Chunks{Count: uint32(len(contents))}}
	for _, c := range contents {
		n.Chunks.Inline = append(n.Chunks.Inline, []byte(c))
	}
	if attachment != "" {
		n.Attachment = []byte(attachment)
	}
	r := d.Machine.Live(d.Insert(&n))
	if !lost {
		d.Store().Memtable.KeepContents(&journal.Contents{Seq: r.Seq, Pages: store.PackContent(n.Chunks.Inline), Attachment: n.Attachment})
		if err := d.Store().Memtable.Flush(d.T.Context()); err != nil {
			d.T.Fatal(err)
		}
	}
	return r
}

// reserve picks all that there is.
func (d *desk) reserve() (picks []machine.Pick) {
	d.T.Helper()
	parsed, err := strategy.Parse("OldestFirst")
	if err != nil {
		d.T.Fatal(err)
	}
	q := &machine.Request{Plan: parsed.Plan(), Max: 100, Consumer: "c"}
	views, unbuilt := d.Machine.Views(q.Plan, nil)
	for unbuilt != nil && !unbuilt.Build(100) {
	}
	d.Machine.Reserve(q, views, q.Max, d.Clock, &picks)
	return picks
}

// An answer has a signed token, the content or its key, the attachment and the meta of each chunk, appended to the
// list.
func TestFill(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.inline("note", false, "one", "two")
	d.inline("", false, "three")
	d.Insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 1, Prefix: "p/"}})
	got, err := d.answers.Fill(t.Context(), d.reserve(), make([]queue.Reservation, 1), 0)
	if err != nil || len(got.Reservations) != 5 {
		t.Fatalf("%d reservations, %v", len(got.Reservations), err)
	}
	bodies := map[string]bool{}
	for i := range got.Reservations[1:] {
		r := &got.Reservations[i+1]
		bodies[string(r.Attachment)+":"+string(r.Content.Bytes)] = r.Content.IsKey
		if !key.Valid(&r.Token) {
			t.Errorf("the token of %+v is not signed", r)
		}
	}
	for body, isKey := range map[string]bool{"note:one": false, "note:two": false, ":three": false, ":p/0": true} {
		if is, there := bodies[body]; !there || is != isKey {
			t.Errorf("no chunk has %q, key %t: %v", body, isKey, bodies)
		}
	}
	if n := d.answers.Waits.Counts().Count; n != 4 {
		t.Errorf("%d waits are measured, want 4", n)
	}
}

// Chunks that do not fit into an answer are given back, with no try counted; one chunk goes out however large it is.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	d := open(t)
	large := strings.Repeat("x", queue.MaxAnswerBytes/2+1)
	d.inline("", false, large, large, large)
	for left := 3; left > 0; left-- {
		got, err := d.answers.Fill(t.Context(), d.reserve(), nil, 0)
		if err != nil || len(got.Reservations) != 1 || d.Machine.Holds.Len() != 4-left {
			t.Fatalf("%d reservations, %d held, %v; want one more", len(got.Reservations), d.Machine.Holds.Len(), err)
		}
	}
}

// A chunk whose content is lost becomes a dead letter of which no try is counted, and the others go out. A submission whose attachment is
// lost is paused.
func TestDamageMakesDeadLetters(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.inline("", false, "sound")
	bad := d.inline("", true, "lost")
	got, err := d.answers.Fill(t.Context(), d.reserve(), nil, 0)
	if err != nil || len(got.Reservations) != 1 || string(got.Reservations[0].Content.Bytes) != "sound" {
		t.Fatalf("%+v, %v", got.Reservations, err)
	}
	if d.Machine.Live(bad.ID) != nil || bad.Dead != 1 || bad.Tries[0].Attempts != 0 || d.Machine.Stats.Damaged != 1 || d.Machine.Holds.Len() != 1 {
		t.Errorf("%d dead, %d damaged, %d held", bad.Dead, d.Machine.Stats.Damaged, d.Machine.Holds.Len())
	}
	paused := d.inline("lost", true, "there")
	if got, err = d.answers.Fill(t.Context(), d.reserve(), nil, 0); err != ErrAgain || len(got.Reservations) != 0 {
		t.Errorf("%+v, %v; want %v", got.Reservations, err, ErrAgain)
	}
	list := d.rules.List()
	if len(list) != 1 || list[0].Match.Submission != paused.ID || list[0].Actor != queue.ServerActor || len(d.reserve()) != 0 {
		t.Errorf("the rules: %+v", list)
	}
}

// When a chunk cannot become a dead letter, it is offered again with those that are sound. When contents cannot be read for now, all are.
func TestFailuresGiveBack(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.inline("", false, "sound")
	d.inline("", true, "lost")
	d.Fail = errors.New("no room")
	if _, err := d.answers.Fill(t.Context(), d.reserve(), nil, 0); err == nil || d.Machine.Stats.Dead+d.Machine.Stats.Damaged != 0 || len(d.reserve()) != 2 {
		t.Errorf("the commit failed: %v, %d are dead", err, d.Machine.Stats.Dead)
	}
	d = open(t)
	d.inline("", false, "one", "two")
	picks := d.reserve()
	d.Refuse = &queue.Error{Code: queue.CodeUnavailable}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.answers.Fill(ctx, picks, nil, 0); !errors.Is(err, context.Canceled) || d.Machine.Holds.Len() != 0 || d.Woken == 0 {
		t.Errorf("%v, %d held", err, d.Machine.Holds.Len())
	}
}
