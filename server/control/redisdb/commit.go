package redisdb

import (
	"context"
	"slices"
	"strconv"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// Commit commits a change with a script.
func (db *DB) Commit(ctx context.Context, c *control.Change) error {
	if err := c.Validate(); err != nil {
		return err
	}
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	keys := append([]string{
		db.key("progress"), db.key("objects"), db.key("index"), db.key("changes"), db.key("ops"),
		db.key("log"), db.key("log", c.Namespace), db.key("history"), db.key("counts"),
	}, db.touched(c.Namespace)...)
	args := []string{c.Namespace, formatInt(c.Base), c.Actor, c.From, c.Action, c.Note, db.channel()}
	kinds := control.Kinds()
	for i := range c.Ops {
		op := &c.Ops[i]
		isPut, isForNodes := "1", "0"
		if op.Body == nil {
			isPut = "0"
		}
		if op.Kind.ForNodes() {
			isForNodes = "1"
		}
		args = append(args, string(op.Kind), strconv.Itoa(slices.Index(kinds, op.Kind)+1), isForNodes, op.ID,
			formatInt(op.Base), isPut, string(op.Body))
	}
	r := newReply(commitScript.Exec(ctx, db.client, keys, args))
	if r.err != nil {
		return db.fault("commit to", r.err)
	}
	if err := readCommitReply(c, r); err != nil {
		return err
	}
	db.changes.Notify()
	return nil
}

// readCommitReply copies the script's reply into the change, or returns a *control.Conflict.
func readCommitReply(c *control.Change, r *reply) error {
	if r.text() == "conflict" {
		// The script counts operations from 1. 0 stands for the namespace.
		opNumber, conflict := r.number(), &control.Conflict{Namespace: c.Namespace, Want: c.Base, Have: r.number()}
		if opNumber > 0 {
			op := &c.Ops[opNumber-1]
			conflict.Kind, conflict.ID, conflict.Want = op.Kind, op.ID, op.Base
		}
		if r.err != nil {
			return r.err
		}
		return conflict
	}
	revision, now, before := r.number(), r.number(), r.texts()
	if r.err != nil || len(before) != len(c.Ops) {
		return errReply
	}
	c.Revision, c.Time = revision, tables.TimeOf(now)
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
