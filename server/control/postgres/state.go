package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/server/control"
)

// sweepBatch is the maximum number of expired states that each write deletes. It is above 1, so that they do not pile
// up.
const sweepBatch = 16

// sqlNow is the database's time in SQL.
const sqlNow = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

// PutState stores a state.
func (db *DB) PutState(ctx context.Context, s control.State) error {
	if err := s.Validate(); err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	// Concurrent sweeps skip each other's rows instead of waiting.
	_, err := db.pool.Exec(ctx, `DELETE FROM headgate_states WHERE (bucket, id) IN
		(SELECT bucket, id FROM headgate_states WHERE expires <= `+sqlNow+` ORDER BY expires LIMIT $1 FOR UPDATE SKIP LOCKED)`, sweepBatch)
	if err != nil {
		return db.fault("write to", err)
	}
	_, err = db.pool.Exec(ctx, putState, s.Bucket, s.ID, s.Expires.UnixMicro(), string(s.Body))
	return db.fault("write to", err)
}

const putState = `INSERT INTO headgate_states (bucket, id, expires, body) VALUES ($1, $2, $3, $4)
	ON CONFLICT (bucket, id) DO UPDATE SET expires = excluded.expires, body = excluded.body`

// GetState returns a state.
func (db *DB) GetState(ctx context.Context, bucket, id string) (*control.State, error) {
	if !storable(bucket, id) {
		return nil, fmt.Errorf("%q %q: %w", bucket, id, control.ErrNotFound)
	}
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	s, err := state(db.pool.QueryRow(ctx,
		"SELECT bucket, id, expires, body FROM headgate_states WHERE bucket = $1 AND id = $2 AND expires > "+sqlNow, bucket, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%s %s: %w", bucket, id, control.ErrNotFound)
	}
	if err != nil {
		return nil, db.fault("read", err)
	}
	return &s, nil
}

func state(row pgx.Row) (control.State, error) {
	var s control.State
	var expires int64
	var body string
	err := row.Scan(&s.Bucket, &s.ID, &expires, &body)
	s.Expires, s.Body = timeOf(expires), []byte(body)
	return s, err
}

// States returns the states of a bucket.
func (db *DB) States(ctx context.Context, bucket string, limit int) ([]control.State, error) {
	if !storable(bucket) {
		return nil, nil
	}
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	var list []control.State
	err := each(ctx, db.pool, func(rows pgx.Rows) error {
		s, err := state(rows)
		list = append(list, s)
		return err
	}, "SELECT bucket, id, expires, body FROM headgate_states WHERE bucket = $1 AND expires > "+sqlNow+" ORDER BY id LIMIT $2", bucket, max(limit, 1))
	return list, db.fault("read", err)
}

// DeleteState deletes a state.
func (db *DB) DeleteState(ctx context.Context, bucket, id string) error {
	if !storable(bucket, id) {
		return nil
	}
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	_, err := db.pool.Exec(ctx, "DELETE FROM headgate_states WHERE bucket = $1 AND id = $2", bucket, id)
	return db.fault("write to", err)
}
