package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/store"
)

func auditOf(t *testing.T, e *Engine, f AuditFilter) (list []AuditEntry) {
	t.Helper()
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := e.Audit(f, cursor, 3)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, page.Items...)
		cursor = page.Next
	}
	return list
}

func lines(list []AuditEntry) (out []string) {
	for _, a := range list {
		out = append(out, fmt.Sprintf("%s %s/%s %s %s -> %s", a.Actor, a.Queue, a.Action, a.Target, a.Before, a.After))
	}
	slices.Reverse(out)
	return out
}

// Every act is in the log once, with its actor and its change, in the order of time, before and after a checkpoint and a restart. An act
// that changes nothing, or is refused, is not.
func TestAuditTellsOfEveryAct(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), access.With(t.Context(), &access.Caller{Token: &access.Token{Name: "ana"}, OnBehalfOf: "bo", From: "10.0.0.7", RequestID: "r-1"})
	e := openFor(t, dir)
	company := queue.MetaEntry{Key: "company", Value: queue.IntValue(7)}
	rule, _, err := queueAt(e, DefaultQueue).Rules.Set(ctx, queue.Rule{Match: queue.RuleMatch{Entry: company}, Reason: "late"}, nil)
	fatal(t, err)
	_, _, err = queueAt(e, DefaultQueue).Rules.Set(ctx, queue.Rule{Match: queue.RuleMatch{Entry: company}, Reason: "late"}, nil) // says the same
	fatal(t, err)
	_, _, err = queueAt(e, DefaultQueue).Values.Put(ctx, company, queue.ValueSettings{Limit: 5, Weight: 2000}, nil)
	fatal(t, err)
	_, _, err = queueAt(e, DefaultQueue).Strategies.Put(ctx, "nightly", []byte(`"OldestFirst"`), nil)
	fatal(t, err)
	fatal(t, e.queues[DefaultQueue].shard.Checkpoint())
	_, _, err = queueAt(e, DefaultQueue).Rules.Lift(ctx, rule.ID, "")
	fatal(t, err)
	_, _, err = queueAt(e, DefaultQueue).Rules.Lift(ctx, rule.ID, "") // is lifted already
	fatal(t, err)
	if _, _, err := queueAt(e, DefaultQueue).Rules.Set(ctx, queue.Rule{Action: queue.Block}, nil); err == nil {
		t.Fatal("a block without a reason was taken")
	}
	_, _, err = e.PutQueue(ctx, "other", queue.DefaultSettings())
	fatal(t, err)
	s, _, err := queueAt(e, "other").Insert(ctx, queue.NewSubmission{Chunks: queue.Chunks{Count: 3, Prefix: "x/"}})
	fatal(t, err)
	_, err = queueOf(e, s.ID).Submissions.Cancel(ctx, s.ID)
	fatal(t, err)
	_, err = queueOf(e, s.ID).Submissions.Cancel(ctx, s.ID) // is cancelled already
	fatal(t, err)
	fatal(t, e.DeleteQueue(ctx, "other", false))
	made, secret, err := e.Tokens().New(ctx, TokenRequest{Name: "ci", Scopes: access.Admin})
	fatal(t, err)
	fatal(t, e.Tokens().Revoke(ctx, made.ID))

	settings, _ := json.Marshal(json.RawMessage(auditOf(t, e, AuditFilter{Action: "queue.create"})[0].After))
	want := []string{
		`ana default/rule.create rule 1  -> {"action":"pause","match":"company=7","reason":"late"}`,
		`ana default/value.set company=7  -> {"limit":5,"weight":2}`,
		`ana default/strategy.create strategy nightly  -> "OldestFirst"`,
		`ana default/rule.lift rule 1 {"action":"pause","match":"company=7","reason":"late"} -> `,
		`ana other/queue.create   -> ` + string(settings),
		`ana other/submission.cancel submission ` + s.ID.String() + ` {"available":3,"done":0} -> `,
		`ana other/queue.delete  ` + string(settings) + ` -> `,
		`ana /token.create token ` + string(made.ID) + `  -> {"name":"ci","scopes":["admin"]}`,
		`ana /token.revoke token ` + string(made.ID) + ` {"name":"ci","scopes":["admin"]} -> `,
	}
	check := func(when string) {
		t.Helper()
		list := auditOf(t, e, AuditFilter{Actor: "ana"}) // and not what the server does by itself
		if got := lines(list); !slices.Equal(got, want) {
			t.Errorf("%s the log says\n%q\nwant\n%q", when, got, want)
		}
		for _, a := range list {
			if a.OnBehalfOf != "bo" || a.From != "10.0.0.7" || a.RequestID != "r-1" || a.Outcome != queue.ActOK {
				t.Errorf("%s %s says %+v of who it was", when, a.Action, a.Who)
			}
			if text, err := json.Marshal(a); err != nil || strings.Contains(string(text), secret[len(secret)-52:]) {
				t.Errorf("%s the log shows the secret of a token: %s (%v)", when, text, err)
			}
		}
	}
	check("at once")
	for range 2 {
		fatal(t, e.Close())
		e = openFor(t, dir)
		check("after a restart")
	}
	if got := lines(auditOf(t, e, AuditFilter{Action: "rule", Queue: DefaultQueue, Actor: "ana"})); !slices.Equal(got, []string{want[0], want[3]}) {
		t.Errorf("of the rules the log says %q", got)
	}
	if got := auditOf(t, e, AuditFilter{Actor: "bo"}); len(got) != 0 {
		t.Errorf("bo did %q", lines(got))
	}
}

// Pages of any size give every entry once and in order, wherever it is, in a queue or in the log. Filters by time are exact.
func TestAuditPages(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	e := openFor(t, dir)
	for _, name := range []string{"a", "b"} {
		_, _, err := e.PutQueue(t.Context(), name, queue.DefaultSettings())
		fatal(t, err)
	}
	for range 60 {
		name := []string{"a", "b", DefaultQueue}[rnd.IntN(3)]
		switch rnd.IntN(4) {
		case 0:
			_, err := queueAt(e, name).RetryParked(t.Context())
			fatal(t, err)
		case 1:
			_, _, err := queueAt(e, name).Values.Put(t.Context(), queue.MetaEntry{Key: "n", Value: queue.IntValue(rnd.Int64N(9))}, queue.ValueSettings{Limit: rnd.Uint32N(1000) + 1}, nil)
			fatal(t, err)
		case 2:
			_, _, err := queueAt(e, name).Rules.Set(t.Context(), queue.Rule{Match: queue.RuleMatch{Entry: queue.MetaEntry{Key: "n", Value: queue.IntValue(rnd.Int64())}}}, nil)
			fatal(t, err)
		case 3:
			fatal(t, e.queues[name].shard.Checkpoint())
		}
	}
	read := func(f AuditFilter, limit int) (cursors []string) {
		for cursor, more := "", true; more; more = cursor != "" {
			page, err := e.Audit(f, cursor, limit)
			fatal(t, err)
			for _, a := range page.Items {
				cursors = append(cursors, a.Cursor)
			}
			cursor = page.Next
		}
		return cursors
	}
	all := read(AuditFilter{}, 1000)
	if len(all) < 20 {
		t.Fatalf("only %d entries", len(all))
	}
	for _, limit := range []int{1, 2, 7, len(all) - 1, len(all)} {
		if got := read(AuditFilter{}, limit); !slices.Equal(got, all) {
			t.Errorf("pages of %d give %q, want %q", limit, got, all)
		}
	}
	middle, err := AuditTime(all[len(all)/2])
	fatal(t, err)
	if got := append(read(AuditFilter{Since: middle}, 3), read(AuditFilter{Until: middle}, 3)...); !slices.Equal(got, all) {
		t.Errorf("the two halves are %q, want %q", got, all)
	}
}

// Entries go when they are older than they are kept, and not before.
func TestAuditForgets(t *testing.T) {
	t.Parallel()
	e := openFor(t, t.TempDir())
	_, err := queueAt(e, DefaultQueue).RetryParked(t.Context())
	fatal(t, err)
	fatal(t, e.queues[DefaultQueue].shard.Checkpoint())
	e.cleaner.round(t.Context())
	if got := auditOf(t, e, AuditFilter{}); len(got) != 2 {
		t.Fatalf("%q, want that the queue was made, and the retry", lines(got))
	}
	now := e.options.Now
	e.options.Now = func() time.Time { return now().Add(DefaultAuditKeep + time.Minute) }
	e.cleaner.round(t.Context())
	if got := len(auditOf(t, e, AuditFilter{})); got != 0 {
		t.Errorf("%d entries after %v, want none", got, DefaultAuditKeep)
	}
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openFor opens an engine whose clock moves on with every reading, so that entries are in the order of their acts.
func openFor(t *testing.T, dir string) *Engine {
	t.Helper()
	began, looks := time.Now(), new(atomic.Int64)
	now := func() time.Time { return began.Add(time.Duration(looks.Add(1)) * time.Millisecond) }
	e, err := Open(context.Background(), Options{Dir: dir, Now: now, Seed: rand.Uint64, Registerer: prometheus.NewRegistry(), BallastBytes: -1})
	fatal(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// A page of the log includes the entries that other nodes of a cluster have not put there yet: every entry once, in both orders, for pages
// of any size, and also if another node has more entries than fit into its part.
func TestAuditJoinsWhatOtherNodesAdd(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	list := []*Engine{openFor(t, t.TempDir()), openFor(t, t.TempDir()), openFor(t, t.TempDir())}
	var want []AuditEntry
	for i, e := range list {
		for _, name := range []string{"a", "b", "c"} { // each has one with a shard of its own
			_, _, err := e.PutQueue(t.Context(), name, queue.DefaultSettings())
			fatal(t, err)
		}
		name := []string{"a", "b", "c"}[i]
		for range 20 {
			if rnd.IntN(8) == 0 && i == 0 { // of the others the first one has nothing in its log
				fatal(t, e.queues[name].shard.Checkpoint())
			}
			_, _, err := queueAt(e, name).Rules.Set(t.Context(), queue.Rule{Match: queue.RuleMatch{Entry: queue.MetaEntry{Key: "n", Value: queue.IntValue(rnd.Int64())}}}, nil)
			fatal(t, err)
		}
		want = append(want, auditOf(t, e, AuditFilter{Action: "rule"})...)
	}
	if len(want) != 60 {
		t.Fatalf("%d entries, want 60", len(want))
	}
	place := func(a AuditEntry) store.ActPlace {
		p, err := parseActPlace(a.Cursor)
		fatal(t, err)
		return p
	}
	for _, oldest := range []bool{false, true} {
		order := latestFirst
		if oldest {
			order = oldestFirst
		}
		slices.SortFunc(want, func(a, b AuditEntry) int { return order.compare(place(a), place(b)) })
		for _, limit := range []int{1, 2, 7, 59, 60, 1000} {
			for _, most := range []int{1, 500, 1 << 20} {
				var got []AuditEntry
				f, cursor := AuditFilter{Action: "rule", OldestFirst: oldest}, ""
				if oldest {
					cursor = AuditCursor(0)
				}
				for more := true; more; more = cursor != "" {
					var far []FreshActs
					for _, e := range list[1:] {
						said, err := e.FreshActs(f, cursor, limit, most)
						fatal(t, err)
						far = append(far, said)
					}
					page, err := list[0].Audit(f, cursor, limit, far...)
					fatal(t, err)
					if len(page.Items) > limit {
						t.Fatalf("%d entries on a page of %d", len(page.Items), limit)
					}
					got, cursor = append(got, page.Items...), page.Next
				}
				if !slices.Equal(got, want) {
					t.Fatalf("oldest first %v, pages of %d, parts of %d bytes: %q\nwant %q", oldest, limit, most, lines(got), lines(want))
				}
			}
		}
	}
}
