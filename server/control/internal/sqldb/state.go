package sqldb

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// sweepBatch is the maximum number of expired states that PutState deletes. It is more than one, so that they do not
// accumulate.
const sweepBatch = 16

// exec executes a query in a transaction of its own.
func (db *DB) exec(ctx context.Context, query string, args ...any) error {
	return db.Transact(ctx, "write to", tables.CallTimeout, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

// PutState stores a state.
func (db *DB) PutState(ctx context.Context, s control.State) error {
	if err := s.Validate(); err != nil {
		return err
	}
	// Concurrent calls skip each other's expired states instead of waiting.
	err := db.exec(ctx, `DELETE FROM headgate_states WHERE (bucket, id) IN (SELECT bucket, id FROM headgate_states
		WHERE expires <= `+db.Dialect.Now()+" ORDER BY expires LIMIT $1"+db.Dialect.SkipLocked+")", sweepBatch)
	if err != nil {
		return err
	}
	return db.exec(ctx, `INSERT INTO headgate_states (bucket, id, expires, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (bucket, id) DO UPDATE SET expires = excluded.expires, body = excluded.body`,
		s.Bucket, s.ID, s.Expires.UnixMicro(), string(s.Body))
}

// GetState returns a state.
func (db *DB) GetState(ctx context.Context, bucket, id string) (*control.State, error) {
	if !storable(bucket, id) {
		return nil, fmt.Errorf("%q %q: %w", bucket, id, control.ErrNotFound)
	}
	list, err := db.states(ctx, "bucket = $1 AND id = $2", "", bucket, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s %s: %w", bucket, id, control.ErrNotFound)
	}
	return &list[0], nil
}

// States returns the states of a bucket.
func (db *DB) States(ctx context.Context, bucket string, limit int) ([]control.State, error) {
	if !storable(bucket) {
		return nil, nil
	}
	return db.states(ctx, "bucket = $1", " LIMIT $2", bucket, max(limit, 1))
}

// states returns the states that meet a condition and have not expired.
func (db *DB) states(ctx context.Context, condition, limit string, args ...any) (list []control.State, err error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	err = each(ctx, db.Read, func(rows *sql.Rows) error {
		var s control.State
		var expires int64
		err := rows.Scan(&s.Bucket, &s.ID, &expires, &s.Body)
		s.Expires = tables.TimeOf(expires)
		list = append(list, s)
		return err
	}, "SELECT bucket, id, expires, body FROM headgate_states WHERE "+condition+" AND expires > "+db.Dialect.Now()+
		" ORDER BY id"+limit, args...)
	return list, db.Fault("read", err)
}

// DeleteState deletes a state.
func (db *DB) DeleteState(ctx context.Context, bucket, id string) error {
	if !storable(bucket, id) {
		return nil
	}
	return db.exec(ctx, "DELETE FROM headgate_states WHERE bucket = $1 AND id = $2", bucket, id)
}
