package store

import (
	"context"

	"github.com/quern-queue/quern/engine/sqlitedb"
)

// PutStanding stores durably what holds for the queue as a whole under a name ("lost"), in
// the place of what was stored before. What the bytes hold is the shard's affair.
func (s *Store) PutStanding(ctx context.Context, name string, state []byte) error {
	return wrap("put "+name, s.tx(ctx, func(w *writer) error {
		_, err := w.putStanding.Exec(name, sum(0).bytes([]byte(name)).bytes(state).stored(), state)
		return err
	}))
}

// Standing is what PutStanding stored last under the name, nil if nothing was.
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
