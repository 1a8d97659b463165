package redisdb

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate/headgate/control"
)

// sweep is how many states that have expired are forgotten when another comes: more than one, so that they do not pile up.
const sweep = 16

func stateName(bucket, id string) string { return bucket + "\x00" + id }

// PutState keeps a state.
func (db *DB) PutState(ctx context.Context, s control.State) error {
	if err := s.Validate(); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx, calling)
	defer cancel()
	keys := []string{db.key("states"), db.key("states", "index"), db.key("states", "expiry")}
	args := []string{stateName(s.Bucket, s.ID), number(s.Expires.UnixMicro()), string(s.Body), strconv.Itoa(sweep)}
	return db.fault("write to", putStateScript.Exec(ctx, db.client, keys, args).Error())
}

// GetState returns a state.
func (db *DB) GetState(ctx context.Context, bucket, id string) (*control.State, error) {
	ctx, cancel := bounded(ctx, calling)
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

// States returns those of a bucket.
func (db *DB) States(ctx context.Context, bucket string, limit int) ([]control.State, error) {
	ctx, cancel := bounded(ctx, calling)
	defer cancel()
	return db.allStates(ctx, "["+bucket+"\x00", "("+bucket+"\x01", max(limit, 1))
}

// allStates reads states page by page, at most so many.
func (db *DB) allStates(ctx context.Context, from, to string, most int) ([]control.State, error) {
	var list []control.State
	for {
		some, last, err := db.states(ctx, from, to, db.look, most-len(list))
		if err != nil {
			return nil, err
		}
		if list = append(list, some...); last == "" || len(list) >= most {
			return list, nil
		}
		from = "(" + last
	}
}

// states reads some, and returns the name of the last that was looked at, empty if all were.
func (db *DB) states(ctx context.Context, from, to string, look, most int) (list []control.State, last string, err error) {
	keys := []string{db.key("states"), db.key("states", "index")}
	answer, err := statesScript.Exec(ctx, db.client, keys, []string{from, to, strconv.Itoa(look), strconv.Itoa(most)}).ToArray()
	if err != nil {
		return nil, "", db.fault("read", err)
	}
	if len(answer) != 2 {
		return nil, "", errReply
	}
	if last, err = answer[0].ToString(); err != nil {
		return nil, "", err
	}
	found, err := answer[1].AsStrSlice()
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(found); i += 2 {
		bucket, id, _ := strings.Cut(found[i], "\x00")
		expires, body, _ := strings.Cut(found[i+1], "\x00")
		n, err := strconv.ParseInt(expires, 10, 64)
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", errReply, err)
		}
		list = append(list, control.State{Bucket: bucket, ID: id, Expires: at(n), Body: []byte(body)})
	}
	return list, last, nil
}

// DeleteState forgets a state.
func (db *DB) DeleteState(ctx context.Context, bucket, id string) error {
	ctx, cancel := bounded(ctx, calling)
	defer cancel()
	keys := []string{db.key("states"), db.key("states", "index"), db.key("states", "expiry")}
	return db.fault("write to", dropStateScript.Exec(ctx, db.client, keys, []string{stateName(bucket, id)}).Error())
}
