package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/access"
	"github.com/quern-queue/quern/engine/journal"
	"github.com/quern-queue/quern/engine/journal/sqlitelog"
	"github.com/quern-queue/quern/engine/queue"
)

// common is a journal that the catalogues of several servers share.
type common struct {
	t    *testing.T
	path string
}

func (x *common) open(ctx context.Context) (journal.Journal, error) {
	return sqlitelog.Open(ctx, x.path, sqlitelog.Options{Shared: true})
}

// server is the catalogue of one more server.
func (x *common) server() *Catalogue {
	x.t.Helper()
	c := openCatalogue(x.t, filepath.Join(x.t.TempDir(), "quern.db"))
	x.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			x.t.Errorf("Close: %v", err)
		}
	})
	must(x.t, c.Share(ctx, x.open))
	return c
}

func (x *common) caughtUp(c *Catalogue) {
	x.t.Helper()
	must(x.t, c.CatchUp(ctx))
}

// all are the contents of a catalogue.
func all(t *testing.T, c *Catalogue) string {
	t.Helper()
	queues, err := c.Queues()
	must(t, err)
	left, err := c.Leftovers()
	must(t, err)
	tokens, required, err := c.Tokens()
	must(t, err)
	for i := range tokens {
		tokens[i].Use = nil
	}
	versions, err := c.PluginVersions()
	must(t, err)
	records, err := c.PluginRecords()
	must(t, err)
	var acts []string
	must(t, c.Acts(ActPlace{At: 1 << 60}, func(a *ActRow) bool { acts = append(acts, fmt.Sprintf("%+v", *a)); return true }))
	return fmt.Sprintf("%+v\n%v\n%+v %v\n%+v\n%+v\n%s", queues, left, tokens, required, versions, records, strings.Join(acts, "\n"))
}

// Servers that make changes at once all have the same in the end, and so has one that comes later.
func TestSharedCatalogue(t *testing.T) {
	t.Parallel()
	x := &common{t: t, path: filepath.Join(t.TempDir(), "catalogue.db")}
	servers := []*Catalogue{x.server(), x.server(), x.server()}
	var refused [3]int
	var beside sync.WaitGroup
	for n, c := range servers {
		beside.Go(func() {
			act := queue.Act{At: queue.Time(n), Action: "queue.create"}
			act.Actor = fmt.Sprint(n)
			for i := range 20 {
				shard := queue.ShardID(i)
				if err := c.PutQueue(QueueRow{Name: fmt.Sprintf("q%d-%d", n, i), Shard: shard, Settings: queue.DefaultSettings(), Created: 1}, act); err != nil {
					refused[n]++
					if !refusal(err) || queue.CodeOf(err) != queue.CodeConflict {
						t.Errorf("server %d: PutQueue: %v, want the code conflict", n, err)
					}
				}
				id, secret, err := access.Draw(rand.NewChaCha8([32]byte{byte(n), byte(i)}))
				if err == nil {
					err = c.PutToken(access.Token{ID: id, Name: fmt.Sprintf("t%d-%d", n, i), Scopes: access.Read, Secret: access.HashOf(secret)}, act)
				}
				if err != nil {
					t.Errorf("server %d: PutToken: %v", n, err)
				}
			}
		})
	}
	beside.Wait()
	if n := refused[0] + refused[1] + refused[2]; n != 40 {
		t.Errorf("%d queues were refused as their shard was taken, want 40 of 60", n)
	}
	secret := func(c *Catalogue, chance byte) []byte {
		key, err := c.Secret("token", 16, rand.NewChaCha8([32]byte{chance}))
		must(t, err)
		return key
	}
	if a, b := secret(servers[0], 1), secret(servers[1], 2); !reflect.DeepEqual(a, b) {
		t.Errorf("two servers have the secrets %x and %x", a, b)
	}
	if n, err := servers[2].TrimActs(1, 10); err != nil || n != 10 {
		t.Errorf("%d entries were trimmed, %v; want 10 of the 20 or more that the first server made", n, err)
	}
	want := ""
	for n, c := range append(servers, x.server()) {
		x.caughtUp(c)
		switch got := all(t, c); {
		case want == "":
			want = got
		case got != want:
			t.Errorf("server %d has\n%s\nwant\n%s", n, got, want)
		}
	}
}

// A server that decided from what it read is refused if another server has changed that since: nothing comes back that was deleted, and no
// change is lost.
func TestChangesThatAnotherServerOvertook(t *testing.T) {
	t.Parallel()
	x := &common{t: t, path: filepath.Join(t.TempDir(), "catalogue.db")}
	a, b := x.server(), x.server()
	id := access.ID(strings.Repeat("k", 12))
	token := access.Token{ID: id, Name: "ci", Scopes: access.Read, Secret: access.Hash{1}, Created: 3}
	one := queue.PluginVersion{SHA256: queue.SHA256{1}, Name: "p", Version: "1", State: "ready", Manifest: []byte("{}"), Report: []byte("{}")}
	two := one
	two.SHA256, two.Version = queue.SHA256{2}, "2"
	active := func(revision uint64, v queue.PluginVersion) queue.PluginRecord {
		return queue.PluginRecord{Name: "p", Revision: revision, Active: queue.PluginUse{SHA256: v.SHA256}, Settings: []byte("{}")}
	}
	q := QueueRow{Name: "q", Shard: 1, Settings: queue.DefaultSettings(), Created: 1}
	rotated := func(secret byte) *access.Token {
		t := token
		t.Secret, t.Previous, t.PreviousUntil = access.Hash{secret}, token.Secret, 9
		return &t
	}
	must(t, a.PutToken(token))
	must(t, RotateToken(a, rotated(2), token.Secret))
	must(t, a.EndTokens([]access.Token{token})) // with the secret of before, it ends nothing
	must(t, a.UseTokens(map[access.ID]queue.Time{id: 9}))
	must(t, a.UseTokens(map[access.ID]queue.Time{id: 8}))
	x.caughtUp(b)
	if list, _, err := b.Tokens(); err != nil || len(list) != 1 || list[0].Secret != (access.Hash{2}) || list[0].PreviousUntil != 9 || list[0].Used != 9 {
		t.Errorf("the token is %+v, %v; want the secret 2, the one before until 9, and used at 9", list, err)
	}
	must(t, a.PutPluginVersion(one, nil))
	must(t, a.PutPluginVersion(two, nil))
	must(t, a.PutPluginRecord(active(1, one)))
	must(t, a.DeletePluginVersion(two.SHA256, "p", 1))
	must(t, a.PutQueue(q))
	must(t, a.DeleteQueue(q))
	must(t, SetQueue(b, q)) // it passes over a queue that is gone
	for what, late := range map[string]func() error{
		"rotated twice":                  func() error { return RotateToken(b, rotated(3), token.Secret) },
		"made twice":                     func() error { return b.PutToken(token) },
		"a record at the same revision":  func() error { return b.PutPluginRecord(active(1, one)) },
		"active although it was deleted": func() error { return b.PutPluginRecord(active(2, two)) },
		"a version in use":               func() error { return b.DeletePluginVersion(one.SHA256, "p", 0) },
		"a plugin that was activated":    func() error { return b.DeletePlugin("p", 0) },
	} {
		if err := late(); queue.CodeOf(err) != queue.CodeConflict {
			t.Errorf("%s: %v, want the code conflict", what, err)
		}
	}
	must(t, a.DeleteToken(id))
	if err := RotateToken(b, rotated(4), access.Hash{2}); queue.CodeOf(err) != queue.CodeConflict {
		t.Errorf("a token that was revoked is rotated: %v, want the code conflict", err)
	}
	x.caughtUp(a)
	x.caughtUp(b)
	if first, second := all(t, a), all(t, b); first != second {
		t.Errorf("one server has\n%s\nand the other\n%s", first, second)
	}
	records, err := a.PluginRecords()
	if versions, err2 := a.PluginVersions(); errors.Join(err, err2) != nil || len(versions) != 1 || len(records) != 1 || records[0].Revision != 1 {
		t.Errorf("there are %+v and %+v, %v; want version 1 at revision 1", versions, records, errors.Join(err, err2))
	}
}

// A follower is notified of the changes of others, and not of its own.
func TestFollowCatalogue(t *testing.T) {
	t.Parallel()
	x := &common{t: t, path: filepath.Join(t.TempDir(), "catalogue.db")}
	mine, other := x.server(), x.server()
	ctx, stop := context.WithCancel(t.Context())
	notified, ended := make(chan int), make(chan error)
	go func() {
		ended <- mine.Follow(ctx, func() {
			queues, err := mine.Queues()
			if err != nil {
				t.Errorf("Queues: %v", err)
			}
			notified <- len(queues)
		})
	}()
	for n := range 5 {
		must(t, mine.Leave(queue.ShardID(n)))
		must(t, other.PutQueue(QueueRow{Name: fmt.Sprint(n), Shard: queue.ShardID(n), Settings: queue.DefaultSettings(), Created: 1}))
		if got := <-notified; got != n+1 {
			t.Errorf("after change %d there are %d queues", n, got)
		}
	}
	must(t, mine.Leave(9))
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow = %v, want that it was cancelled", err)
	}
}

// A change that a newer program made stops the copy there, and names it: nothing behind it is done.
func TestSharedCatalogueStopsAtTheUnknown(t *testing.T) {
	t.Parallel()
	x := &common{t: t, path: filepath.Join(t.TempDir(), "catalogue.db")}
	c := x.server()
	must(t, c.Leave(1))
	log, err := x.open(ctx)
	must(t, err)
	defer log.Close()
	_, err = log.Append(ctx, 1, journal.AppendChange(nil, &journal.Change{Steps: []journal.Step{do("flag.put", "x")}}))
	must(t, err)
	for range 2 {
		if err := c.Leave(2); err == nil || !strings.Contains(err.Error(), `"flag.put" is not known`) || !strings.Contains(err.Error(), "position 2") {
			t.Errorf("Leave behind it = %v, want that the change at position 2 is not known", err)
		}
	}
	if left, err := c.Leftovers(); err != nil || len(left) != 1 {
		t.Errorf("Leftovers = %v, %v; want what was before", left, err)
	}
	if err := openCatalogue(t, filepath.Join(t.TempDir(), "quern.db")).Share(ctx, x.open); err == nil {
		t.Error("a new server shares a catalogue that it does not understand")
	}
}

// A change that is in the journal when the copy's own disk is full is done later, and once.
func TestSharedCatalogueOnAFullDisk(t *testing.T) {
	t.Parallel()
	x := &common{t: t, path: filepath.Join(t.TempDir(), "catalogue.db")}
	c := x.server()
	must(t, c.conn.SetMaxPages(1))
	module := make([]byte, 1<<20)
	v := queue.PluginVersion{SHA256: queue.SHA256{1}, Name: "p", Version: "1", State: "ready", Manifest: []byte("{}"), Report: []byte("{}")}
	tries := 0
	c.Around = func(change func() error) error {
		err := change()
		for tries++; errors.Is(err, journal.ErrFull) && tries < 3; tries++ { // as where a ballast makes room
			err = change()
		}
		return err
	}
	if err := c.PutPluginVersion(v, module); !errors.Is(err, journal.ErrUnknown) || tries != 1 {
		t.Errorf("PutPluginVersion on a full disk = %v after %d tries; want that the outcome is unknown, after 1", err, tries)
	}
	must(t, c.conn.SetMaxPages(1<<20))
	must(t, c.Leave(1))
	if all, err := c.PluginVersions(); err != nil || len(all) != 1 {
		t.Errorf("PluginVersions = %d, %v; want the one", len(all), err)
	}
	if tail, err := c.shared.log.Tail(ctx); err != nil || tail != 2 {
		t.Errorf("the journal has %d changes, %v; want 2", tail, err)
	}
}

// heldLog is a journal whose appends wait.
type heldLog struct {
	journal.Journal
	begun, release chan struct{}
}

func (l heldLog) Append(ctx context.Context, at journal.Position, batch []byte) (journal.Position, error) {
	close(l.begun)
	<-l.release
	return l.Journal.Append(ctx, at, batch)
}

// While a change waits for the journal, the tables are read as they were, and catching up gives up when its context ends.
func TestReadsDoNotWaitForTheJournal(t *testing.T) {
	t.Parallel()
	x := &common{t: t, path: filepath.Join(t.TempDir(), "catalogue.db")}
	c := x.server()
	held := heldLog{c.shared.log, make(chan struct{}), make(chan struct{})}
	c.shared.log = held
	put := make(chan error, 1)
	go func() { put <- c.PutQueue(QueueRow{Name: "q", Shard: 3, Settings: queue.DefaultSettings()}) }()
	<-held.begun
	if queues, err := c.Queues(); err != nil || len(queues) != 0 {
		t.Errorf("while a change waits: %v, %v; want no queue", queues, err)
	}
	if _, _, err := c.Tokens(); err != nil {
		t.Errorf("the tokens while a change waits: %v", err)
	}
	over, end := context.WithCancel(ctx)
	end()
	if err := c.CatchUp(over); !errors.Is(err, context.Canceled) {
		t.Errorf("catching up without time: %v, want that it gives up", err)
	}
	select {
	case err := <-put:
		t.Errorf("the change ended before its journal answered: %v", err)
	default:
	}
	close(held.release)
	if err := <-put; err != nil {
		t.Error(err)
	}
	if queues, err := c.Queues(); err != nil || len(queues) != 1 {
		t.Errorf("behind the change: %v, %v; want one queue", queues, err)
	}
}
