package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/queue"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// keyed is a store with small slots, and the keys that it must have.
type keyed struct {
	t     *testing.T
	path  string
	s     *Store
	rnd   *rand.Rand
	now   queue.Time
	id    queue.SubmissionID
	past  queue.Time // keys from before may be forgotten, also when the clock is set back behind it
	known map[queue.KeyHash]checkpoint.Key
}

func openKeyed(t *testing.T, slotKeys int) *keyed {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	k := &keyed{t: t, path: filepath.Join(t.TempDir(), "store.db"), rnd: rand.New(rand.NewPCG(seed, 1)), now: 1_760_000_000_000,
		known: map[queue.KeyHash]checkpoint.Key{}}
	k.open(slotKeys)
	t.Cleanup(func() { k.s.Close() })
	return k
}

func (k *keyed) open(slotKeys int) {
	var err error
	k.s, err = Open(context.Background(), k.path, Options{Durability: queue.Relaxed, SlotKeys: slotKeys})
	must(k.t, err)
}

// draw makes up keys of the present time, some of them used before.
func (k *keyed) draw(n int) (list []checkpoint.Key) {
	drawn := map[queue.KeyHash]bool{}
	for range n {
		k.id++
		key := checkpoint.Key{Hash: queue.HashKey(fmt.Sprint(k.rnd.IntN(2000))), ID: k.id, At: k.now}
		binary.BigEndian.PutUint64(key.Fingerprint[:], k.rnd.Uint64())
		if last, used := k.known[key.Hash]; drawn[key.Hash] || used && last.At >= k.now.Add(-queue.IdempotencyWindow) {
			continue
		}
		drawn[key.Hash] = true
		list = append(list, key)
	}
	return list
}

func (k *keyed) put(list []checkpoint.Key) {
	must(k.t, k.s.Keys.Put(context.Background(), list))
	for _, key := range list {
		k.known[key.Hash] = key
	}
}

// check looks for all keys, and for some that were never used.
func (k *keyed) check() {
	k.t.Helper()
	since := k.now.Add(-queue.IdempotencyWindow)
	for n := range 2100 {
		hash := queue.HashKey(fmt.Sprint(n))
		want, is := k.known[hash]
		if is && want.At >= since && want.At < k.past {
			continue
		}
		is = is && want.At >= since
		got, err := k.s.Keys.Find(context.Background(), hash, since)
		must(k.t, err)
		if is != (got != nil) || is && *got != want {
			k.t.Fatalf("key %d: got %+v, want %+v (%v)", n, got, want, is)
		}
	}
}

// Every key is found for its window, with its last use, and no key that was not used; for all slots, after a restart
// too, and while old keys are removed.
//
//quern:sequential
func TestKeysAreFound(t *testing.T) {
	t.Parallel()
	const slot = 50
	k := openKeyed(t, slot)
	for range 60 {
		k.put(k.draw(k.rnd.IntN(120)))
		k.now = k.now.Add(time.Duration(k.rnd.Int64N(int64(2 * time.Hour))))
		if k.rnd.IntN(5) == 0 {
			k.now = k.now.Add(-time.Duration(k.rnd.Int64N(int64(time.Hour)))) // the clock is set back
		}
		if k.rnd.IntN(3) == 0 {
			before := k.now.Add(-queue.IdempotencyWindow)
			k.past = max(k.past, before)
			_, err := k.s.Keys.Expire(context.Background(), before, 1+k.rnd.IntN(40))
			must(t, err)
		}
		if k.rnd.IntN(6) == 0 {
			must(t, k.s.Close())
			k.open(slot)
		}
		k.check()
	}
	for more := true; more; {
		var err error
		more, err = k.s.Keys.Expire(context.Background(), k.now.Add(100*time.Hour), 10)
		must(t, err)
	}
	pages, err := k.s.write.conn.Int("SELECT (SELECT count(*) FROM key_page) + (SELECT count(*) FROM key_slot)")
	must(t, err)
	if n := k.s.Keys.Len(); pages != 0 || n != 0 {
		t.Errorf("after all have expired: %d rows, %d keys; want none", pages, n)
	}
}

// Keys that were put once are put again without an effect, as after a checkpoint that was cut off; then a use at another time differs.
func TestKeysArePutOnce(t *testing.T) {
	t.Parallel()
	k := openKeyed(t, 0)
	list := k.draw(500)
	k.put(list)
	n := k.s.Keys.Len()
	again := append([]checkpoint.Key{}, list...)
	for i := range again {
		again[i].At++ // a replay knows the time of the batch
	}
	must(t, k.s.Keys.Put(context.Background(), again))
	if got := k.s.Keys.Len(); n != len(list) || got != n {
		t.Errorf("%d keys, put again %d; want %d", n, got, len(list))
	}
	k.check()
}

// A filter says of every key that it may be there, and of few others.
//
//quern:sequential
func TestKeyFilter(t *testing.T) {
	t.Parallel()
	keys := map[uint64]keyBit{}
	for n := range 100_000 {
		keys[keyBits(queue.HashKey(fmt.Sprint(n)))] = keyBit{}
	}
	f, wrong := newFilter(keys), 0
	for n := range 200_000 {
		switch has := f.has(keyBits(queue.HashKey(fmt.Sprint(n)))); {
		case n < 100_000 && !has:
			t.Fatalf("key %d is not in the filter", n)
		case n >= 100_000 && has:
			wrong++
		}
	}
	if len(f) > 2*100_000+filterBlock || wrong > 100_000/300 {
		t.Errorf("%d bytes, %d of 100,000 others; want at most two bytes for a key, and one of 300", len(f), wrong)
	}
	if newFilter(nil).has(1) {
		t.Error("a filter of no keys has one")
	}
}

// A row of keys that is damaged is refused by name, and is never a key that was not used.
func TestDamagedKeys(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"key_page", "key_slot"} {
		k := openKeyed(t, 50)
		list := k.draw(120)
		k.put(list)
		must(t, k.s.Close())
		func() {
			db, err := sqlitedb.SQL(k.path)
			must(t, err)
			defer db.Close()
			_, err = db.Exec("UPDATE " + table + " SET bytes = CAST(substr(bytes, 1, length(bytes) - 1) || x'ff' AS BLOB)")
			must(t, err)
		}()
		s, err := Open(context.Background(), k.path, Options{Durability: queue.Relaxed, SlotKeys: 50})
		if err == nil {
			_, err = s.Keys.Find(context.Background(), list[0].Hash, 0)
			s.Close()
		}
		var format *queue.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), "in table "+table) {
			t.Errorf("%s: %v; want an error that names the table", table, err)
		}
	}
}

// A salvage keeps every key whose page is whole, also of a slot whose row is damaged, and reports the others.
func TestSalvagedKeys(t *testing.T) {
	t.Parallel()
	k := openKeyed(t, 50)
	k.put(k.draw(300))
	must(t, k.s.Close())
	db, err := sqlitedb.SQL(k.path)
	must(t, err)
	_, err = db.Exec("UPDATE key_slot SET crc = crc + 1 WHERE n % 2 = 1; UPDATE key_page SET crc = crc + 1 WHERE n >> 13 = 2")
	must(t, errors.Join(err, db.Close()))
	to, lost := filepath.Join(t.TempDir(), "store.db"), 0
	must(t, Salvage(context.Background(), k.path, to, Salvaging{Tell: func(l LeftOut) {
		if l.Table == "key_page" {
			lost++
		}
	}}))
	k.s, err = Open(context.Background(), to, Options{Durability: queue.Relaxed, SlotKeys: 50})
	must(t, err)
	missing := 0
	for hash, want := range k.known {
		got, err := k.s.Keys.Find(context.Background(), hash, 0)
		must(t, err)
		if got == nil {
			missing++
		} else if *got != want {
			t.Errorf("got %+v, want %+v", *got, want)
		}
	}
	if missing < lost || lost == 0 || missing > 50 || k.s.Keys.Len() != len(k.known) {
		t.Errorf("%d keys are missing, %d pages told, %d counted; want those of one slot", missing, lost, k.s.Keys.Len())
	}
	_, err = Verify(context.Background(), to, func(d sqlitedb.Damage) { t.Errorf("the salvaged file: %+v", d) })
	must(t, err)
}

// Keys are put page by page, and within a page in the order of their inserts.
func TestKeysByPage(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	list := make([]checkpoint.Key, 50_000)
	for i := range list {
		binary.BigEndian.PutUint64(list[i].Hash[:], rnd.Uint64())
		list[i].At = queue.Time(i)
	}
	const slot = 1 << 40
	sorted := byPage(slot, list)
	seen := map[queue.Time]bool{}
	for i := range sorted {
		seen[sorted[i].At] = true
		if i == 0 {
			continue
		}
		before, page := keyPageOf(slot, sorted[i-1].Hash), keyPageOf(slot, sorted[i].Hash)
		if before > page || before == page && sorted[i-1].At > sorted[i].At {
			t.Fatalf("key %d of page %d comes after key %d of page %d", sorted[i].At, page, sorted[i-1].At, before)
		}
	}
	if len(seen) != len(list) {
		t.Errorf("%d of %d keys are there", len(seen), len(list))
	}
}
