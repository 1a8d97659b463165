package redisdb

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// sweepBatch is the number of expired states that PutState deletes. It is more than one, so that they do not
// accumulate.
const sweepBatch = 16

func stateName(bucket, id string) string { return bucket + "\x00" + id }

// PutState stores a state.
func (db *DB) PutState(ctx context.Context, s control.State) error {
	if err := s.Validate(); err != nil {
		return err
	}
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	keys := []string{db.key("states"), db.key("states", "index"), db.key("states", "expiry")}
	args := []string{stateName(s.Bucket, s.ID), formatInt(s.Expires.UnixMicro()), string(s.Body), strconv.Itoa(sweepBatch)}
	return db.fault("write to", putStateScript.Exec(ctx, db.client, keys, args).Error())
}

// GetState returns a state.
func (db *DB) GetState(ctx context.Context, bucket, id string) (*control.State, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	name := stateName(bucket, id)
	list, _, err := db.states(ctx, "["+name, "["+name, 1, 1)
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
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	return db.allStates(ctx, "["+bucket+"\x00", "("+bucket+"\x01", max(limit, 1))
}

// allStates reads up to limit states, page by page.
func (db *DB) allStates(ctx context.Context, from, to string, limit int) ([]control.State, error) {
	var list []control.State
	for {
		page, last, err := db.states(ctx, from, to, db.batch, limit-len(list))
		if err != nil {
			return nil, err
		}
		if list = append(list, page...); last == "" || len(list) >= limit {
			return list, nil
		}
		from = "(" + last
	}
}

// states reads one page of states. It returns the name of the last one, empty if there are no more pages.
func (db *DB) states(
	ctx context.Context, from, to string, scanLimit, limit int,
) (list []control.State, last string, err error) {
	keys := []string{db.key("states"), db.key("states", "index")}
	args := []string{from, to, strconv.Itoa(scanLimit), strconv.Itoa(limit)}
	r := newReply(statesScript.Exec(ctx, db.client, keys, args))
	if r.err != nil {
		return nil, "", db.fault("read", r.err)
	}
	last, found := r.text(), r.texts()
	if r.err != nil {
		return nil, "", r.err
	}
	for i := 0; i+1 < len(found); i += 2 {
		bucket, id, _ := strings.Cut(found[i], "\x00")
		expires, body, _ := strings.Cut(found[i+1], "\x00")
		n, err := strconv.ParseInt(expires, 10, 64)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", errReply, err)
		}
		list = append(list, control.State{Bucket: bucket, ID: id, Expires: tables.TimeOf(n), Body: []byte(body)})
	}
	return list, last, nil
}

// DeleteState deletes a state.
func (db *DB) DeleteState(ctx context.Context, bucket, id string) error {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	keys := []string{db.key("states"), db.key("states", "index"), db.key("states", "expiry")}
	return db.fault("write to", dropStateScript.Exec(ctx, db.client, keys, []string{stateName(bucket, id)}).Error())
}
