package store

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

func openCatalogue(t *testing.T, path string) *Catalogue {
	t.Helper()
	c, err := OpenCatalogue(ctx, path)
	must(t, err)
	return c
}

// Queues keep their settings, every field of them, and their shard; changing and deleting are durable.
func TestCatalogueQueues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "quern.db")
	c := openCatalogue(t, path)
	all := queue.Settings{
		Durability: queue.Relaxed, MaxAttempts: 1, MaxExpiries: 2, OnExhausted: queue.Skip, ReservationTimeout: 3 * time.Second, MaxReservation: 4 * time.Hour,
		RetryBackoff: queue.Backoff{Base: 5 * time.Millisecond, Factor: 1.25, Cap: 6 * time.Minute}, ExpiryBackoff: queue.Backoff{Base: 7 * time.Second, Factor: 8, Cap: 9 * time.Hour},
		Retention: 10 * 24 * time.Hour, ConsumerGrace: 11 * time.Second, RestartGrace: 12 * time.Millisecond, Draining: true, DeadLetterQueue: "dead", DeadRetention: 13 * time.Second,
		SuspectShare: 0.75, Requeue: queue.Tail,
	}
	want := []QueueRow{
		{Name: "default", Settings: queue.DefaultSettings(), Created: 1}, {Name: "späte post", Shard: 7, Settings: all, Created: 2},
	}
	must(t, c.PutQueue(want[1]))
	must(t, c.PutQueue(QueueRow{Name: "default", Shard: 0, Settings: all, Created: 1}))
	must(t, SetQueue(c, want[0]))
	must(t, SetQueue(c, QueueRow{Name: "default", Settings: all, Created: 98})) // one that had this name before
	if err := c.PutQueue(QueueRow{Name: "default", Shard: 5, Settings: all, Created: 99}); err == nil {
		t.Error("there are two queues of one name")
	}
	must(t, c.PutQueue(QueueRow{Name: "gone", Shard: 3, Settings: all, Created: 3}))
	if err := c.PutQueue(QueueRow{Name: "thief", Shard: 7, Settings: all, Created: 4}); err == nil {
		t.Error("a queue took another's shard")
	}
	must(t, c.DeleteQueue(QueueRow{Name: "gone", Shard: 3, Created: 3}))
	must(t, c.DeleteQueue(QueueRow{Name: "never was"}))
	must(t, c.DeleteQueue(QueueRow{Name: "default", Created: 98})) // one that had this name before
	for range 2 {
		if got, err := c.Queues(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Queues = %v, %v; want %v", got, err, want)
		}
		must(t, c.Close())
		c = openCatalogue(t, path)
	}
	const old = `{"durability":"full","max_attempts":10,"max_expiries":3,"on_exhausted":"skip","reservation_timeout_ms":600000,"max_reservation_ms":86400000}`
	must(t, c.conn.Exec("UPDATE queue SET settings = '"+old+"' WHERE shard = 7"))
	if got, err := c.Queues(); err != nil || got[1].Settings.ConsumerGrace != queue.DefaultGrace || got[1].Settings.RestartGrace != 0 || got[1].Settings.Draining {
		t.Errorf("a row of an older version: got %+v, %v; want the defaults for what it does not have", got, err)
	}
	must(t, c.conn.Exec("UPDATE queue SET settings = '{\"durability\":\"never\"}' WHERE shard = 7"))
	if _, err := c.Queues(); !isFormat(err) {
		t.Errorf("Queues with broken settings = %v; want a *queue.FormatError", err)
	}
	must(t, c.Close())
}

func isFormat(err error) bool {
	_, ok := errors.AsType[*queue.FormatError](err)
	return ok
}

// A secret is drawn once and then stays, over restarts too.
func TestCatalogueSecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "quern.db")
	c := openCatalogue(t, path)
	first, err := c.Secret("token", 16, rand.NewChaCha8([32]byte{1}))
	must(t, err)
	other, err := c.Secret("other", 32, rand.NewChaCha8([32]byte{2}))
	must(t, err)
	must(t, c.Close())
	c = openCatalogue(t, path)
	again, err := c.Secret("token", 16, rand.NewChaCha8([32]byte{3}))
	if err != nil || len(first) != 16 || !bytes.Equal(first, again) || bytes.Equal(first, other[:16]) {
		t.Errorf("Secret = %x, then %x, %v; want the same 16 bytes, and not those of another name (%x)", first, again, err, other)
	}
	if _, err := c.Secret("token", 17, rand.NewChaCha8([32]byte{})); err == nil {
		t.Error("a secret of another length was given out")
	}
	if _, err := c.Secret("short", 16, bytes.NewReader(make([]byte, 5))); err == nil {
		t.Error("a secret was made from too little chance")
	}
	if key, err := c.Secret("short", 16, bytes.NewReader(make([]byte, 16))); err != nil || len(key) != 16 {
		t.Errorf("after the failure: Secret = %x, %v; want 16 bytes", key, err)
	}
	must(t, c.Close())
}

// An initial rule comes back as it was, after a restart as well. One with the same action and match replaces it, and
// those that are over leave with the next change.
func TestCatalogueInitialRules(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "quern.db")
	c := openCatalogue(t, path)
	several, err := queue.NewConditions([]queue.Condition{{Key: "customer", Values: []queue.MetaValue{queue.IntValue(8), queue.IntValue(7)}},
		{Key: "mode", Values: []queue.MetaValue{queue.StringValue("live")}}})
	must(t, err)
	want := []queue.Rule{
		{ID: 1, Action: queue.Block, Reason: "unpaid", Actor: "eve", Since: 5, Until: 100, Insert: true},
		{ID: 2, Match: queue.MatchOf(several), Since: 6, Revoke: true},
		{ID: 3, Match: queue.RuleMatch{Entry: queue.MetaEntry{Key: "a", Value: queue.StringValue("7")}}, Since: 7},
	}
	for i := range want {
		must(t, PutInitialRule(c, &want[i], 1))
	}
	check := func(what string) {
		t.Helper()
		for range 2 {
			if got, err := InitialRules(c); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
			}
			must(t, c.Close())
			c = openCatalogue(t, path)
		}
		t.Cleanup(func() { c.Close() })
	}
	check("set")
	again := want[1]
	again.Reason, again.Since, again.Revoke = "another", 50, false
	must(t, PutInitialRule(c, &again, 100))
	want[1].Reason, want[1].Revoke = "another", false
	want = want[1:]
	check("set again, when another was over")
	must(t, DropInitialRule(c, 3))
	must(t, DropInitialRule(c, 3))
	want = want[:1]
	check("lifted")
	must(t, c.conn.Exec("UPDATE initial_rule SET match = '{'"))
	if _, err := InitialRules(c); !isFormat(err) {
		t.Errorf("a match that is none: %v, want a *queue.FormatError", err)
	}
}
