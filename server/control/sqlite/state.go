package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/server/control"
)

// sweep is the number of expired states that each write deletes: more than one, so that they do not pile up.
const sweep = 16

// PutState stores a state.
func (db *DB) PutState(ctx context.Context, s control.State) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return db.change(ctx, "write to", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM states WHERE (bucket, id) IN
			(SELECT bucket, id FROM states WHERE expires <= ? ORDER BY expires LIMIT ?)`, micros(time.Now()), sweep)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO states VALUES (?1, ?2, ?3, ?4)
			ON CONFLICT (bucket, id) DO UPDATE SET expires = ?3, body = ?4`, s.Bucket, s.ID, micros(s.Expires), string(s.Body))
		return err
	})
}

// GetState returns a state.
func (db *DB) GetState(ctx context.Context, bucket, id string) (*control.State, error) {
	s := control.State{Bucket: bucket, ID: id}
	var expires int64
	err := db.read.QueryRowContext(ctx, "SELECT expires, body FROM states WHERE bucket = ? AND id = ? AND expires > ?",
		bucket, id, micros(time.Now())).Scan(&expires, &s.Body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%s %s: %w", bucket, id, control.ErrNotFound)
	}
	if err != nil {
		return nil, db.fault("read", err)
	}
	s.Expires = at(expires)
	return &s, nil
}

// States returns the states of a bucket.
func (db *DB) States(ctx context.Context, bucket string, limit int) ([]control.State, error) {
	list, err := states(ctx, db.read,
		"SELECT bucket, id, expires, body FROM states WHERE bucket = ? AND expires > ? ORDER BY id LIMIT ?",
		bucket, micros(time.Now()), max(limit, 1))
	return list, db.fault("read", err)
}

func states(ctx context.Context, q querier, query string, args ...any) ([]control.State, error) {
	var list []control.State
	err := each(ctx, q, func(rows *sql.Rows) error {
		var s control.State
		var expires int64
		err := rows.Scan(&s.Bucket, &s.ID, &expires, &s.Body)
		s.Expires = at(expires)
		list = append(list, s)
		return err
	}, query, args...)
	return list, err
}

// DeleteState deletes a state.
func (db *DB) DeleteState(ctx context.Context, bucket, id string) error {
	return db.change(ctx, "write to", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM states WHERE bucket = ? AND id = ?", bucket, id)
		return err
	})
}
