// Package blobtest is the conformance suite of blobs.Blobs. It tests the behaviour that the engine relies on, and that every implementation
// must have.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/quern-queue/quern/engine/blobs"
)

// Medium is an implementation under test. It keeps each set of blobs in a dir.
type Medium struct {
	// Open makes a set of blobs: an empty one the first time, the same one after a close.
	Open func(t *testing.T, dir string) (of blobs.Blobs, close func() error)
	// Damage changes a byte of a blob where it is kept, while it is not open.
	Damage func(t *testing.T, dir, key string)
}

// Exercise runs the suite, each part on a set of its own.
func Exercise(t *testing.T, m Medium) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, *subject)
	}{
		{"what is put is read, whole and in parts, also after a reopening", roundTrip},
		{"what is not there is missing, and deleting it is no error", missing},
		{"the same bytes may be put again, others may not", immutable},
		{"the list is in the order of the keys, and bounded", list},
		{"bad keys, too many bytes and too few are refused, and leave nothing", refused},
		{"of many who put at once each finds its own bytes", together},
		{"of many who put one key at once one wins", race},
		{"a damaged blob is never read", func(t *testing.T, s *subject) { damaged(t, s, m) }},
		{"a context that has ended does nothing", ended},
		{"a caller may use its buffer again", buffer},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			s := &subject{t: t, open: m.Open, dir: t.TempDir()}
			s.Blobs, s.close = m.Open(t, s.dir)
			t.Cleanup(s.shut)
			part.run(t, s)
		})
	}
}

// subject is a set of blobs with the helpers that all parts use.
type subject struct {
	blobs.Blobs
	t     *testing.T
	open  func(t *testing.T, dir string) (blobs.Blobs, func() error)
	close func() error
	dir   string
}

var ctx = context.Background()

func (s *subject) shut() {
	s.t.Helper()
	if err := s.close(); err != nil {
		s.t.Fatalf("close: %v", err)
	}
}

func (s *subject) reopen() {
	s.t.Helper()
	s.shut()
	s.Blobs, s.close = s.open(s.t, s.dir)
}

func (s *subject) put(key string, b []byte) {
	s.t.Helper()
	mine := slices.Clone(b)
	if err := s.Put(ctx, key, mine); err != nil {
		s.t.Fatalf("Put(%s, %d bytes): %v", key, len(b), err)
	}
	clear(mine) // which may change nothing: they are the caller's again
}

func (s *subject) get(key string, off, n int64) ([]byte, error) {
	s.t.Helper()
	r, err := s.Get(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

func (s *subject) want(key string, off, n int64, want []byte) {
	s.t.Helper()
	if got, err := s.get(key, off, n); err != nil || !bytes.Equal(got, want) {
		s.t.Fatalf("Get(%s, %d, %d) = %d bytes, %v; want %d", key, off, n, len(got), err, len(want))
	}
}

func (s *subject) wantMissing(keys ...string) {
	s.t.Helper()
	for _, key := range keys {
		if got, err := s.get(key, 0, -1); !errors.Is(err, blobs.ErrMissing) {
			s.t.Fatalf("Get(%s) = %d bytes, %v; want ErrMissing", key, len(got), err)
		}
	}
}

func (s *subject) wantList(prefix, after string, most int, want ...blobs.Blob) {
	s.t.Helper()
	if got, err := s.List(ctx, prefix, after, most); err != nil || !slices.Equal(got, want) {
		s.t.Fatalf("List(%q, %q, %d) = %v, %v; want %v", prefix, after, most, got, err, want)
	}
}

// contents have all sizes, and look like all things that an implementation may take for its own.
func contents(t *testing.T) [][]byte {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	noise := make([]byte, blobs.MaxBytes)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)}).Read(noise)
	return [][]byte{
		{}, {0}, {0, 0, 0}, {1}, {1, 0}, {1, 3, 'a', 'b', 'c'}, {2, 1, 1, 'a', 'b'}, {2, 1, 1, 'a', 'b', 1},
		bytes.Repeat([]byte{0}, 100_000), []byte(strings.Repeat("text ", 50_000)),
		noise[:4095], noise[:4096], noise[:8130], noise[:8131], noise[:100_000], noise,
	}
}

func roundTrip(t *testing.T, s *subject) {
	all := contents(t)
	for i, b := range all {
		s.put(fmt.Sprintf("0001/%03d", i), b)
	}
	for range 2 {
		for i, b := range all {
			key, n := fmt.Sprintf("0001/%03d", i), int64(len(b))
			s.want(key, 0, -1, b)
			s.want(key, 0, n, b)
			s.want(key, 0, n+5, b)
			s.want(key, n/3, n/2, b[n/3:n/3+n/2])
			s.want(key, n/2, -1, b[n/2:])
			s.want(key, n, 1, nil)
			s.want(key, n+7, -1, nil)
			s.want(key, n/2, 0, nil)
			if _, err := s.get(key, -1, 1); err == nil {
				t.Fatal("Get took an offset below 0")
			}
		}
		s.reopen()
	}
}

func missing(t *testing.T, s *subject) {
	s.wantMissing("a", "a/b", "a-b")
	s.put("a/b", []byte("1"))
	s.put("a", []byte("2"))
	s.wantMissing("a/", "a/b/c", "b")
	for range 2 {
		if err := s.Delete(ctx, "a"); err != nil {
			t.Fatalf("Delete: %v", err)
		}
	}
	if err := s.Delete(ctx, "never/there"); err != nil {
		t.Fatalf("Delete of what is not there: %v", err)
	}
	s.reopen()
	s.wantMissing("a")
	s.want("a/b", 0, -1, []byte("1"))
	s.put("a", []byte("other bytes"))
	s.want("a", 0, -1, []byte("other bytes"))
}

func immutable(t *testing.T, s *subject) {
	for i, b := range contents(t) {
		key := fmt.Sprint("k", i)
		s.put(key, b)
		s.put(key, b)
		other := append(slices.Clone(b), 'x')
		if len(other) > blobs.MaxBytes {
			other = other[:10]
		}
		changed := slices.Clone(b)
		if len(changed) > 0 {
			changed[len(changed)/2] ^= 1
		} else {
			changed = []byte{0}
		}
		for _, b := range [][]byte{other, changed} {
			if err := s.Put(ctx, key, b); !errors.Is(err, blobs.ErrExists) {
				t.Fatalf("Put of other bytes under %s: %v, want ErrExists", key, err)
			}
		}
		s.want(key, 0, -1, b)
	}
	s.reopen()
	s.put("k3", contents(t)[3])
}

func list(t *testing.T, s *subject) {
	s.wantList("", "", 10)
	keys := []string{"0001/a", "0001-a", "0001", "0001/0000000002/1", "0001/0000000010/1", "0001_", "0002/a", "z", "0001/a/b"}
	for i, key := range keys {
		s.put(key, make([]byte, i))
	}
	all := make([]blobs.Blob, len(keys))
	for i, key := range keys {
		all[i] = blobs.Blob{Key: key, Bytes: int64(i)}
	}
	slices.SortFunc(all, func(a, b blobs.Blob) int { return strings.Compare(a.Key, b.Key) })
	for _, prefix := range []string{"", "0", "0001", "0001/", "0001/0", "0002/", "z", "zz", "0001/a"} {
		for _, after := range []string{"", "0", "0001/", "0001/a", "0001/a/", "0002", "zz"} {
			var want []blobs.Blob
			for _, b := range all {
				if strings.HasPrefix(b.Key, prefix) && b.Key > after {
					want = append(want, b)
				}
			}
			for _, most := range []int{0, 1, 3, 1000, 1 << 30} {
				s.wantList(prefix, after, most, want[:min(most, len(want))]...)
			}
		}
	}
	if err := s.Delete(ctx, "0001/a"); err != nil {
		t.Fatal(err)
	}
	s.reopen()
	s.wantList("0001/", "0001/0000000010/1", 10, blobs.Blob{Key: "0001/a/b", Bytes: 8})
}

func refused(t *testing.T, s *subject) {
	for _, key := range []string{"", "..", "a.b", "A", "a\x00b", "ä", `a\b`, strings.Repeat("k", blobs.MaxKeyBytes+1)} {
		if err := s.Put(ctx, key, []byte("x")); err == nil {
			t.Errorf("Put took the key %q", key)
		}
	}
	if err := s.Put(ctx, "k", make([]byte, blobs.MaxBytes+1)); err == nil {
		t.Errorf("Put took %d bytes", blobs.MaxBytes+1)
	}
	s.wantMissing("k")
	s.wantList("", "", 10)
	s.put(strings.Repeat("k", blobs.MaxKeyBytes), []byte("x"))
}

func together(t *testing.T, s *subject) {
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			b := bytes.Repeat([]byte{byte(i)}, i*1000)
			if err := s.Put(ctx, fmt.Sprintf("%02d", i), b); err != nil {
				t.Errorf("Put: %v", err)
			}
		})
	}
	all.Wait()
	for i := range 40 {
		s.want(fmt.Sprintf("%02d", i), 0, -1, bytes.Repeat([]byte{byte(i)}, i*1000))
	}
}

func race(t *testing.T, s *subject) {
	const writers = 8
	var all sync.WaitGroup
	var errs [writers]error
	for i := range writers {
		all.Go(func() { errs[i] = s.Put(ctx, "k", []byte{byte(i)}) })
	}
	all.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Fatalf("%d and %d both put their bytes", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, blobs.ErrExists):
			t.Fatalf("Put: %v, want ErrExists", err)
		}
	}
	if won < 0 {
		t.Fatal("no one put its bytes")
	}
	s.want("k", 0, -1, []byte{byte(won)})
}

func damaged(t *testing.T, s *subject, m Medium) {
	all := contents(t)[3:10]
	for i, b := range all {
		s.put(fmt.Sprint("k", i), b)
		s.put(fmt.Sprint("sound", i), b)
	}
	s.shut()
	for i := range all {
		m.Damage(t, s.dir, fmt.Sprint("k", i))
	}
	s.Blobs, s.close = m.Open(t, s.dir)
	for i, b := range all {
		if got, err := s.get(fmt.Sprint("k", i), 0, 1); !errors.Is(err, blobs.ErrDamaged) || got != nil {
			t.Errorf("Get of a damaged blob = %d bytes, %v; want ErrDamaged", len(got), err)
		}
		s.want(fmt.Sprint("sound", i), 0, -1, b)
	}
	if err := s.Delete(ctx, "k0"); err != nil {
		t.Errorf("Delete of a damaged blob: %v", err)
	}
	s.wantMissing("k0")
}

func ended(t *testing.T, s *subject) {
	s.put("there", []byte("1"))
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, getting := s.Get(over, "there", 0, -1)
	_, listing := s.List(over, "", "", 10)
	for name, err := range map[string]error{"Put": s.Put(over, "k", []byte("x")), "Get": getting, "List": listing,
		"Delete": s.Delete(over, "there")} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v; want context.Canceled", name, err)
		}
	}
	s.wantList("", "", 10, blobs.Blob{Key: "there", Bytes: 1})
}

func buffer(_ *testing.T, s *subject) {
	b := []byte("first")
	s.put("k", b)
	copy(b, "XXXXX")
	s.want("k", 0, -1, []byte("first"))
}
