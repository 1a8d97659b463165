package redisdb

import (
	"context"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/server/control"
)

// Commit applies a change.
func (db *DB) Commit(ctx context.Context, c *control.Change) error {
	if err := c.Validate(); err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	keys := append([]string{
		db.key("progress"), db.key("objects"), db.key("index"), db.key("changes"), db.key("ops"),
		db.key("log"), db.key("log", c.Namespace), db.key("history"), db.key("counts"),
	}, db.touched(c.Namespace)...)
	args := []string{c.Namespace, formatInt(c.Base), c.Actor, c.From, c.Action, c.Note, db.channel()}
	kinds := control.Kinds()
	for i := range c.Ops {
		op := &c.Ops[i]
		put, nodes := "1", "0"
		if op.Body == nil {
			put = "0"
		}
		if op.Kind.ForNodes() {
			nodes = "1"
		}
		args = append(args, string(op.Kind), strconv.Itoa(slices.Index(kinds, op.Kind)+1), nodes, op.ID, formatInt(op.Base),
			put, string(op.Body))
	}
	answer, err := commitScript.Exec(ctx, db.client, keys, args).ToArray()
	if err != nil {
		return db.fault("commit to", err)
	}
	if err := readCommitReply(c, answer); err != nil {
		return err
	}
	db.changes.Notify()
	return nil
}

// readCommitReply copies the script's reply into the change, or returns a conflict.
func readCommitReply(c *control.Change, answer []rueidis.RedisMessage) error {
	if len(answer) < 3 {
		return errReply
	}
	word, err := answer[0].ToString()
	if err != nil {
		return err
	}
	if word == "conflict" {
		place, err := answer[1].AsInt64()
		if err != nil {
			return err
		}
		have, err := answer[2].AsInt64()
		if err != nil {
			return err
		}
		if place == 0 {
			return &control.Conflict{Namespace: c.Namespace, Want: c.Base, Have: have}
		}
		op := &c.Ops[place-1]
		return &control.Conflict{Namespace: c.Namespace, Kind: op.Kind, ID: op.ID, Want: op.Base, Have: have}
	}
	revision, err := answer[1].AsInt64()
	if err != nil {
		return err
	}
	now, err := answer[2].AsInt64()
	if err != nil {
		return err
	}
	before, err := answer[3].AsStrSlice()
	if err != nil || len(before) != len(c.Ops) {
		return errReply
	}
	c.Revision, c.Time = revision, timeOf(now)
	for i := range c.Ops {
		c.Ops[i].Before = nil
		if before[i] == "" {
			continue
		}
		var o control.Object
		if err := unpackObject(before[i], &o); err != nil {
			return err
		}
		c.Ops[i].Before = o.Body
	}
	return nil
}
