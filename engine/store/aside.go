package store

// Rows for data beside the submissions: rules, schedules, bulk operations and the like, one table
// for all. The store does not know their contents. A new kind of part needs no new table and no
// migration: it takes a number (Kind) and writes bytes.

import (
	"context"

	"github.com/quern-queue/quern/engine/checkpoint"
	"github.com/quern-queue/quern/engine/sqlitedb"
)

// PutAside stores and removes rows, in one durable transaction.
func (s *Store) PutAside(ctx context.Context, rows []checkpoint.Aside) error {
	return wrap("put aside", s.tx(ctx, func(w *writer) error {
		for i := range rows {
			r := &rows[i]
			kind, key := int64(r.Kind), int64(r.Key)
			var err error
			if r.Bytes == nil {
				_, err = w.dropAside.Exec(kind, key)
			} else {
				_, err = w.putAside.Exec(kind, key, sum(0).number(kind).number(key).bytes(r.Bytes).stored(), r.Bytes)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// Asides calls fn for every row, by kind and key as signed numbers. The row's bytes may be
// kept. fn must not call the store.
func (s *Store) Asides(ctx context.Context, fn func(checkpoint.Aside) error) error {
	return wrap("asides", s.scan.with(ctx, func(r *reader) error {
		return r.asides.Query(func(row sqlitedb.Row) (bool, error) {
			a := checkpoint.Aside{Kind: uint8(row.Int(0)), Key: uint64(row.Int(1)), Bytes: row.Blob(3)}
			if sum(0).number(row.Int(0)).number(row.Int(1)).bytes(a.Bytes).stored() != row.Int(2) {
				return false, s.damaged("aside", row.Int(1))
			}
			return true, fn(a)
		})
	}))
}

// PutStanding durably stores bytes about the whole queue under a name (such as "lost"), and replaces
// the earlier ones. The shard decides what the bytes mean.
func (s *Store) PutStanding(ctx context.Context, name string, state []byte) error {
	return wrap("put "+name, s.tx(ctx, func(w *writer) error {
		_, err := w.putStanding.Exec(name, sum(0).bytes([]byte(name)).bytes(state).stored(), state)
		return err
	}))
}

// Standing returns the bytes that PutStanding stored last under the name, or nil.
func (s *Store) Standing(ctx context.Context, name string) (state []byte, err error) {
	err = s.scan.with(ctx, func(r *reader) error {
		return r.standing.Query(func(row sqlitedb.Row) (bool, error) {
			if state = row.Blob(1); sum(0).bytes([]byte(name)).bytes(state).stored() != row.Int(0) {
				return false, s.damaged("standing", 1)
			}
			return false, nil
		}, name)
	})
	return state, wrap("standing "+name, err)
}
