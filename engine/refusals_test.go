package engine

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/queue"
)

// refusedOf reads the refused acts of a token from the log: how many entries there are, and how many acts they say were left out.
func refusedOf(t *testing.T, e *Engine, actor string) (entries, leftOut int) {
	t.Helper()
	for _, entry := range auditOf(t, e, AuditFilter{Outcome: queue.ActRefused, Actor: actor}) {
		var reason refusedFor
		fatal(t, json.Unmarshal([]byte(entry.After), &reason))
		if reason.Code != "forbidden" || reason.Detail != "no" || entry.Before != "" {
			t.Errorf("an entry says %s -> %s", entry.Before, entry.After)
		}
		entries, leftOut = entries+1, leftOut+reason.LeftOut
	}
	return entries, leftOut
}

// A token that is refused ten thousand times within some minutes gets sixty entries and one for each minute. The entries and the acts that
// they left out add up. Other tokens have their own pace, a full disk delays entries, and the last entry, before a restart, records the
// rest.
func TestRefusedActsAreRecordedAtAPace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openFor(t, dir)
	now := time.Now()
	e.tokens.now = func() time.Time { return now }
	e.tokens.refusals.now = e.tokens.now
	refuse := func(actor string, times int) {
		ctx := access.With(t.Context(), &access.Caller{Token: &access.Token{Name: actor}, From: "10.0.0.7", RequestID: "r-1"})
		for range times {
			e.Tokens().RecordRefused(ctx, Refusal{Action: "rule.create", Queue: DefaultQueue, Code: "forbidden", Detail: "no"})
		}
	}
	expect := func(when, actor string, entries, leftOut int) {
		t.Helper()
		if n, left := refusedOf(t, e, actor); n != entries || left != leftOut {
			t.Errorf("%s: %d entries of %s, which left out %d; want %d and %d", when, n, actor, left, entries, leftOut)
		}
	}
	refuse("ana", 5000)
	refuse("bo", 1)
	expect("at once", "ana", 60, 0)
	expect("at once", "bo", 1, 0)
	e.tokens.refusals.writeAll(false)
	expect("in the same minute", "ana", 60, 0)
	now = now.Add(time.Minute)
	e.tokens.refusals.writeAll(false)
	e.tokens.refusals.writeAll(false)
	expect("a minute later", "ana", 61, 4939)
	refuse("ana", 5000)
	expect("with more of them", "ana", 61, 4939)
	e.full.Store(true)
	now = now.Add(time.Minute)
	e.tokens.refusals.writeAll(false)
	refuse("bo", 1)
	expect("on a full disk", "ana", 61, 4939)
	expect("on a full disk", "bo", 1, 0)
	e.full.Store(false)
	e.tokens.refusals.writeAll(false)
	expect("with room again", "ana", 62, 9938)
	expect("with room again", "bo", 2, 0)
	refuse("ana", 3)
	fatal(t, e.Close())
	e = openFor(t, dir)
	expect("after a restart", "ana", 63, 9940)
	if entry := auditOf(t, e, AuditFilter{Actor: "ana"})[0]; entry.At != queue.At(now) || entry.From != "10.0.0.7" || entry.RequestID != "r-1" || entry.Action != "rule.create" || entry.Queue != DefaultQueue {
		t.Errorf("the last entry is %+v", entry)
	}
}

// The memory of refused acts is bounded: a token's part goes when it is recorded and the token may have sixty entries again.
func TestRefusedActsAreForgotten(t *testing.T) {
	t.Parallel()
	e := openFor(t, t.TempDir())
	now := time.Now()
	e.tokens.now = func() time.Time { return now }
	e.tokens.refusals.now = e.tokens.now
	for i := range 20 {
		ctx := access.With(t.Context(), &access.Caller{Token: &access.Token{Name: fmt.Sprint("token ", i)}})
		e.Tokens().RecordRefused(ctx, Refusal{Action: "rule.create", Code: "forbidden", Detail: "no"})
	}
	if e.tokens.refusals.writeAll(false); len(e.tokens.refusals.by) != 20 {
		t.Errorf("%d tokens are remembered, want 20", len(e.tokens.refusals.by))
	}
	now = now.Add(time.Minute)
	if e.tokens.refusals.writeAll(false); len(e.tokens.refusals.by) != 0 {
		t.Errorf("%d tokens are remembered after a minute, want none", len(e.tokens.refusals.by))
	}
}
