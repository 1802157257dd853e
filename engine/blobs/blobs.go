// Package blobs has the interface for bytes that are too large for a batch of the journal. They are immutable, have keys, and are durable
// before an op names them. An op is valid only together with the bytes that it names. A blob that no op names is garbage.
package blobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/quern-queue/quern/engine/queue"
)

// Limits.
const (
	// MaxBytes bounds one blob: it is written in one piece, and others wait for it.
	MaxBytes = 4 << 20
	// MaxKeyBytes bounds a key: it is the name of a file.
	MaxKeyBytes = 80
	// MaxList bounds one List.
	MaxList = 1000
)

// ErrMissing says that there is no blob under a key.
var ErrMissing = errors.New("there is no such blob")

// ErrExists says that there is another blob under a key: blobs never change.
var ErrExists = errors.New("there is another blob under this key")

// ErrDamaged says that a blob is not what was put there.
var ErrDamaged = errors.New("the blob is damaged")

// Blobs keeps bytes under keys. All methods may be called from several goroutines at once. After a call with an error, also one of an ended
// context, a Put or a Delete may have happened or not, but never in part. An error that wraps journal.ErrFull says that there is no room
// and that nothing was put; journal.ErrSync, that the disk has lost acknowledged data.
type Blobs interface {
	// Put stores b, at most MaxBytes, durably. When it returns, b is the caller's again. The same bytes once more are no error; other bytes
	// under the same key are ErrExists.
	Put(ctx context.Context, key string, b []byte) error
	// Get reads up to n bytes from off on, or all of them if n is below 0. ErrMissing: there is no such blob. ErrDamaged: it is not as it
	// was put. The error comes before the first byte, so all bytes that are read are right.
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	// List lists blobs whose keys begin with prefix and are behind `after`, in the order of their keys, at most `most` and MaxList.
	List(ctx context.Context, prefix, after string, most int) ([]Blob, error)
	// Delete removes a blob, durably. A missing one is no error.
	Delete(ctx context.Context, key string) error
}

// Blob is an entry of a List.
type Blob struct {
	Key   string
	Bytes int64
}

// Key names a part of the contents of a submission: SHARD/EPOCH/SEQ/PART, of fixed width, so that texts sort like the numbers. The epoch is
// in it because two owners of a shard may give the same number to two submissions.
func Key(shard queue.ShardID, epoch, seq uint32, part int) string {
	return fmt.Sprintf("%s%010d/%010d/%03d", Prefix(shard), epoch, seq, part)
}

// Prefix is what the keys of a shard begin with.
func Prefix(shard queue.ShardID) string { return fmt.Sprintf("%04d/", shard) }

// ParseKey takes a key apart. is: Key has made it.
func ParseKey(key string) (epoch, seq uint32, part int, is bool) {
	fields := strings.Split(key, "/")
	if len(fields) != 4 {
		return 0, 0, 0, false
	}
	var n [4]uint64
	for i, field := range fields {
		var err error
		if n[i], err = strconv.ParseUint(field, 10, 32); err != nil {
			return 0, 0, 0, false
		}
	}
	epoch, seq, part = uint32(n[1]), uint32(n[2]), int(n[3])
	return epoch, seq, part, key == Key(queue.ShardID(n[0]), epoch, seq, part)
}

// Check refuses a Put that no implementation takes: a key of other characters than 0-9, a-z, -, _ and /, or of too many, and bytes beyond
// MaxBytes.
func Check(key string, n int) error {
	switch {
	case key == "" || len(key) > MaxKeyBytes || strings.IndexFunc(key, foreign) >= 0:
		return fmt.Errorf("the key %.100q of a blob is not 1 to %d of the characters 0-9, a-z, -, _ and /", key, MaxKeyBytes)
	case n > MaxBytes:
		return fmt.Errorf("blob %s has %d bytes, and may have up to %d", key, n, MaxBytes)
	}
	return nil
}

// foreign says that a character is in no key.
func foreign(c rune) bool { return !strings.ContainsRune("0123456789abcdefghijklmnopqrstuvwxyz-_/", c) }

// Section is the part of a blob that a Get returns.
func Section(b []byte, off, n int64) ([]byte, error) {
	if off < 0 {
		return nil, fmt.Errorf("a blob has no byte %d", off)
	}
	b = b[min(off, int64(len(b))):]
	if n >= 0 && n < int64(len(b)) {
		b = b[:n]
	}
	return b, nil
}

// All reads a whole blob.
func All(ctx context.Context, from Blobs, key string) (b []byte, err error) {
	r, err := from.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return io.ReadAll(r)
}

// Each calls fn for all blobs whose keys begin with prefix, in their order. fn may delete them.
func Each(ctx context.Context, of Blobs, prefix string, fn func(Blob) error) error {
	for after := ""; ; {
		list, err := of.List(ctx, prefix, after, MaxList)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, b := range list {
			if err := fn(b); err != nil {
				return err
			}
		}
		after = list[len(list)-1].Key
	}
}

// Under has the blobs whose keys begin with prefix, by the rest of their keys.
func Under(of Blobs, prefix string) Blobs { return under{of, prefix} }

type under struct {
	of     Blobs
	prefix string
}

// Put implements Blobs.
func (u under) Put(ctx context.Context, key string, b []byte) error {
	return u.of.Put(ctx, u.prefix+key, b)
}

// Get implements Blobs.
func (u under) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return u.of.Get(ctx, u.prefix+key, off, n)
}

// List implements Blobs.
func (u under) List(ctx context.Context, prefix, after string, most int) ([]Blob, error) {
	list, err := u.of.List(ctx, u.prefix+prefix, u.prefix+after, most)
	for i := range list {
		list[i].Key = list[i].Key[len(u.prefix):]
	}
	return list, err
}

// Delete implements Blobs.
func (u under) Delete(ctx context.Context, key string) error { return u.of.Delete(ctx, u.prefix+key) }
