package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/audit"
	"github.com/quern-queue/quern/engine/shard/machine"
)

// Errors that differ in every word make no more groups than the bound, and the letters of the others are counted. When all are gone so are
// the groups and the count.
func TestLetterGroupsAreBounded(t *testing.T) {
	t.Parallel()
	const letters = 200_000
	g := machine.NewLetterGroups(machine.MaxLetterGroups)
	for i := range letters {
		g.Add(queue.SubmissionID(1+i%100), fmt.Sprint(i), "text", queue.Time(i))
	}
	groups, others, known := g.List(&queue.DeadFilter{}, 0)
	if len(groups) != machine.MaxLetterGroups || others != letters-machine.MaxLetterGroups || !known {
		t.Errorf("got %d groups and %d others, known %v; want %d and %d, known", len(groups), others, known, machine.MaxLetterGroups, letters-machine.MaxLetterGroups)
	}
	if _, _, known := g.List(&queue.DeadFilter{Fingerprint: fmt.Sprint(letters - 1)}, 0); known {
		t.Error("the counters say that they know the letters of a fingerprint without a group")
	}
	for id := range queue.SubmissionID(50) {
		g.Drop(1+id, letters/100)
	}
	for i := range letters {
		if i%100 >= 50 {
			g.Remove(queue.SubmissionID(1+i%100), fmt.Sprint(i), queue.Time(i))
		}
	}
	if len(g.Of) != 0 || g.Others != 0 {
		t.Errorf("without letters there are %d groups and %d others", len(g.Of), g.Others)
	}
}

// modelLetter is a letter as the test knows it.
type modelLetter struct {
	id   queue.SubmissionID
	kind string
	died queue.Time
}

// Whatever comes and goes, what the counters say that they know is so: every group has all letters of its kind, and the others are those of
// kinds without a group.
func TestLetterGroupsTellTheTruth(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := 1 + r.IntN(5)
		g := machine.NewLetterGroups(most)
		var there []modelLetter
		for step := range queue.Time(400) {
			switch n := len(there); {
			case r.IntN(20) == 0:
				there = dropModel(g, there, queue.SubmissionID(1+r.IntN(4)))
			case n > 0 && r.IntN(5) < 2:
				i := r.IntN(n)
				g.Remove(there[i].id, there[i].kind, there[i].died)
				there[i] = there[n-1]
				there = there[:n-1]
			default:
				l := modelLetter{queue.SubmissionID(1 + r.IntN(4)), fmt.Sprint("kind ", r.IntN(7)), step}
				g.Add(l.id, l.kind, l.kind, l.died)
				there = append(there, l)
			}
			f := queue.DeadFilter{}
			if r.IntN(2) == 0 {
				f.Submission = queue.SubmissionID(1 + r.IntN(4))
			}
			if r.IntN(3) == 0 {
				f.Fingerprint = fmt.Sprint("kind ", r.IntN(7))
			}
			compareGroups(t, fmt.Sprintf("seed %d, step %d", seed, step), g, &f, there)
		}
	}
}

func dropModel(g *machine.LetterGroups, there []modelLetter, id queue.SubmissionID) (left []modelLetter) {
	for _, l := range there {
		if l.id != id {
			left = append(left, l)
		}
	}
	g.Drop(id, uint32(len(there)-len(left)))
	return left
}

func compareGroups(t *testing.T, where string, g *machine.LetterGroups, f *queue.DeadFilter, there []modelLetter) {
	t.Helper()
	ofSubmission := uint32(0)
	want, submissions := map[string]queue.DeadGroup{}, map[string]map[queue.SubmissionID]bool{}
	total := uint64(0)
	for _, l := range there {
		if l.id == f.Submission {
			ofSubmission++
		}
		if f.Submission != 0 && l.id != f.Submission || f.Fingerprint != "" && l.kind != f.Fingerprint {
			continue
		}
		x, known := want[l.kind]
		if !known {
			x.First, submissions[l.kind] = l.died, map[queue.SubmissionID]bool{}
		}
		submissions[l.kind][l.id] = true
		x.Count, x.First, x.Last, x.Submissions = x.Count+1, min(x.First, l.died), max(x.Last, l.died), uint64(len(submissions[l.kind]))
		want[l.kind] = x
		total++
	}
	groups, others, known := g.List(f, ofSubmission)
	if len(g.Of) > g.Most {
		t.Fatalf("%s: %d groups, want at most %d", where, len(g.Of), g.Most)
	}
	if !known {
		if g.Others == 0 {
			t.Fatalf("%s: every letter has a group, and the counters do not know those of %+v", where, f)
		}
		return
	}
	for _, x := range groups {
		w := want[x.Fingerprint]
		if x.Count != w.Count || x.Submissions != w.Submissions || x.First > w.First || x.Last < w.Last || x.Example != x.Fingerprint {
			t.Fatalf("%s: of %+v the group %+v, want %+v", where, f, x, w)
		}
		total -= x.Count
	}
	if others != total || others == 0 && len(groups) != len(want) || others > 0 && len(groups) > g.Most {
		t.Fatalf("%s: of %+v %d groups and %d others, want %d others", where, f, len(groups), others, total)
	}
}

// What the groups lack or have too much is found by the audit: also a count below 0, and one that others make up for.
func TestAuditFindsWrongLetterGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(l *life)
		says string
	}{
		"one too many":    {func(l *life) { l.m.Letters.Groups.Add(l.r.ID, queue.Fingerprint("broken"), "broken", 5) }, "2 are in groups, 1 there"},
		"one too few":     {func(l *life) { l.m.Letters.Groups.Remove(l.r.ID, queue.Fingerprint("broken"), 5) }, "0 are in groups or have none, 1 there"},
		"below 0":         {func(l *life) { l.m.Letters.Groups.Remove(9, queue.Fingerprint("broken"), 5) }, "Count:-1"},
		"others below 0":  {func(l *life) { l.m.Letters.Groups.Remove(l.r.ID, "other", 5); l.m.Stats.Dead-- }, "-1 have none"},
		"of another kind": {func(l *life) { l.m.Letters.Groups.Drop(l.r.ID, 1); l.m.Letters.Groups.Add(l.r.ID, "other", "other", 5) }, "dead letters other"},
	} {
		l := heldLife(t, 1000, 100)
		l.hold(500, reserver.Finishing)
		l.putBack(t, 500, journal.Dead, 0, "broken")
		if err := audit.Machine(l.m); err != nil || len(l.m.Letters.Groups.Of) != 1 {
			t.Fatalf("%s: %v and %d groups before the harm, want one group", name, err, len(l.m.Letters.Groups.Of))
		}
		c.harm(l)
		if err := audit.Machine(l.m); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the audit says %v, want %q", name, err, c.says)
		}
	}
}

// What the counters cannot tell because there are more kinds than groups is read from the letters: a kind without a group, a submission that
// has some, and everything once a group has become free.
func TestDeadGroupsBeyondTheBound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	x := newRecounter(t, time.Hour)
	x.m.Letters.Groups = machine.NewLetterGroups(2)
	id := x.insert(&queue.NewSubmission{Chunks: queue.Chunks{Count: 5}, Meta: queue.Meta{{Key: "customer", Value: queue.IntValue(7)}}})
	errors := []string{"no host", "no route", "no room", "no luck", "no luck"}
	var items []queue.FailItem
	for i, got := range x.reserve(`OldestFirst`, 5) {
		items = append(items, queue.FailItem{Token: got.Token, Error: errors[i], Fatal: true})
	}
	if _, err := x.Fail(ctx, items, nil); err != nil {
		t.Fatal(err)
	}
	ask := func(what string, f queue.DeadFilter, groups int, others uint64) {
		t.Helper()
		got, n, err := x.DeadLetters.Groups(ctx, queue.BulkFilter{Dead: f})
		if err != nil || len(got) != groups || n != others {
			t.Errorf("%s: got %d groups and %d others, %v; want %d and %d", what, len(got), n, err, groups, others)
		}
		if err := x.Audit(); err != nil {
			t.Error(err)
		}
	}
	ask("all", queue.DeadFilter{}, 2, 3)
	ask("a kind with a group", queue.DeadFilter{Fingerprint: queue.Fingerprint("no host")}, 1, 0)
	ask("a kind without", queue.DeadFilter{Fingerprint: queue.Fingerprint("no luck")}, 1, 0)
	ask("a submission", queue.DeadFilter{Submission: id}, 4, 0)
	if n, err := x.DeadLetters.Delete(ctx, id, []uint32{items[0].Token.Index}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	ask("with a free group", queue.DeadFilter{}, 3, 0)
}
