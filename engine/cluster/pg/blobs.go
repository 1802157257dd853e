package pg

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/quern-queue/quern/engine/blobs"
)

// blobRows keeps each blob in a row.
type blobRows struct{ b *Backend }

const (
	putSQL = "INSERT INTO blob (key, sha256, bytes) VALUES ($1, $2, $3) ON CONFLICT (key) DO NOTHING"
	// The same bytes may be there and not be durable yet. This commit is behind theirs.
	samePutSQL = "UPDATE blob SET key = key WHERE key = $1 AND sha256 = $2"
	existsSQL  = "SELECT EXISTS (SELECT FROM blob WHERE key = $1)"

	listSQL = "SELECT key, octet_length(bytes) FROM blob WHERE key > $1 AND starts_with(key, $2) AND key >= $2 ORDER BY key LIMIT $3"

	barrierSQL = "UPDATE barrier SET n = n + 1"
)

var errGone = errors.New("the blob was deleted meanwhile")

// Put implements blobs.Blobs.
func (x blobRows) Put(ctx context.Context, key string, b []byte) error {
	if err := cmp.Or(ctx.Err(), blobs.Check(key, len(b))); err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	return x.b.patiently(ctx, len(b), func(ctx context.Context, conn *pgx.Conn) error {
		if rows, err := exec(ctx, conn, conn, putSQL, key, sum[:], b); err != nil || rows == 1 {
			return err
		}
		if rows, err := exec(ctx, conn, conn, samePutSQL, key, sum[:]); err != nil || rows == 1 {
			return err
		}
		var exists bool
		if err := conn.QueryRow(ctx, existsSQL, key).Scan(&exists); err != nil {
			return err
		}
		if exists {
			return &final{fmt.Errorf("pg: blob %s: %w", key, blobs.ErrExists)}
		}
		return errGone // put again
	})
}

// Get implements blobs.Blobs. It reads the whole blob, to check its sum.
func (x blobRows) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	var sum, b []byte
	err := x.b.patiently(ctx, blobs.MaxBytes, func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, "SELECT sha256, bytes FROM blob WHERE key = $1", key).Scan(&sum, &b)
		if errorIsNoRows(err) {
			return &final{fmt.Errorf("pg: blob %.100q: %w", key, blobs.ErrMissing)}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if is := sha256.Sum256(b); !bytes.Equal(is[:], sum) {
		return nil, fmt.Errorf("pg: blob %s: %w", key, blobs.ErrDamaged)
	}
	section, err := blobs.Section(b, off, n)
	if err != nil {
		return nil, err
	}
	return io.NopCloser(bytes.NewReader(section)), nil
}

// List implements blobs.Blobs.
func (x blobRows) List(ctx context.Context, prefix, after string, most int) (list []blobs.Blob, err error) {
	err = x.b.patiently(ctx, 0, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, listSQL, after, prefix, max(0, min(most, blobs.MaxList)))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[blobs.Blob])
		return err
	})
	if len(list) == 0 {
		list = nil
	}
	return list, err
}

// Delete implements blobs.Blobs.
func (x blobRows) Delete(ctx context.Context, key string) error {
	again := false
	return x.b.patiently(ctx, 0, func(ctx context.Context, conn *pgx.Conn) error {
		tried := again
		again = true
		if _, err := exec(ctx, conn, conn, "DELETE FROM blob WHERE key = $1", key); err != nil || !tried {
			return err
		}
		_, err := exec(ctx, conn, conn, barrierSQL) // an earlier try may have deleted it without being durable yet
		return err
	})
}
