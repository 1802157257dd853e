package shard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/reserver"
	"github.com/quern-queue/quern/engine/shard/audit"
	"github.com/quern-queue/quern/engine/shard/deadletters/lettergroups"
)

// The audit finds letters that the groups lack or have too many of, also a count below 0, and one that other counts
// make up for.
func TestAuditFindsWrongLetterGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		harm func(l *life)
		says string
	}{
		"one too many":   {func(l *life) { l.parts.letters.Groups.Add(l.r.ID, queue.Fingerprint("broken"), "broken", 5) }, "2 are in groups, 1 there"},
		"one too few":    {func(l *life) { l.parts.letters.Groups.Remove(l.r.ID, queue.Fingerprint("broken"), 5) }, "0 are in groups or have none, 1 there"},
		"below 0":        {func(l *life) { l.parts.letters.Groups.Remove(9, queue.Fingerprint("broken"), 5) }, "Count:-1"},
		"others below 0": {func(l *life) { l.parts.letters.Groups.Remove(l.r.ID, "other", 5); l.m.Stats.Dead-- }, "-1 have none"},
		"of another kind": {func(l *life) {
			l.parts.letters.Groups.Drop(l.r.ID, 1)
			l.parts.letters.Groups.Add(l.r.ID, "other", "other", 5)
		}, "dead letters other"},
	} {
		l := heldLife(t, 1000, 100)
		l.hold(500, reserver.Finishing)
		l.putBack(t, 500, journal.Dead, 0, "broken")
		if err := audit.Machine(l.m); err != nil || len(l.parts.letters.Groups.Of) != 1 {
			t.Fatalf("%s: %v and %d groups before the harm, want one group", name, err, len(l.parts.letters.Groups.Of))
		}
		c.harm(l)
		if err := audit.Machine(l.m); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the audit says %v, want %q", name, err, c.says)
		}
	}
}

// With more kinds than groups, the counters do not know everything, and the letters are read: for a kind without a
// group, for a submission that has such letters, and for everything once a group has become free.
func TestDeadGroupsBeyondTheBound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	x := newRecounter(t, time.Hour)
	x.parts.letters.Groups = lettergroups.New(2)
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
		got, err := x.DeadLetters.Groups(ctx, queue.BulkFilter{Dead: f})
		if err != nil || len(got.Items) != groups || got.Others != others {
			t.Errorf("%s: got %d groups and %d others, %v; want %d and %d", what, len(got.Items), got.Others, err, groups, others)
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
