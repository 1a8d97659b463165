package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/server/control"
)

// Commit applies a change.
func (db *DB) Commit(ctx context.Context, c *control.Change) error {
	if err := c.Validate(); err != nil {
		return err
	}
	made := *c
	made.Ops = append([]control.Op(nil), c.Ops...)
	err := db.change(ctx, "commit to", callTimeout, func(ctx context.Context, tx pgx.Tx, last int64) error {
		made.Revision = last + 1
		return commit(ctx, tx, &made)
	})
	if err != nil {
		return err
	}
	*c = made
	db.changes.Notify()
	return nil
}

// A previous is an object before a change.
type previous struct {
	revision, created, updated int64
	actor                      string
	body                       *string
}

// A name identifies an object of a namespace.
type name struct {
	kind control.Kind
	id   string
}

// commit applies a change within a transaction that holds the lock, and fills in its results.
func commit(ctx context.Context, tx pgx.Tx, c *control.Change) error {
	var have, now int64
	kinds, ids := make([]string, len(c.Ops)), make([]string, len(c.Ops))
	for i := range c.Ops {
		kinds[i], ids[i] = string(c.Ops[i].Kind), c.Ops[i].ID
	}
	before := make(map[name]previous, len(c.Ops))
	b := &pgx.Batch{}
	b.Queue("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, coalesce((SELECT last FROM headgate_namespaces WHERE name = $1), 0)", c.Namespace).
		QueryRow(func(row pgx.Row) error { return row.Scan(&now, &have) })
	b.Queue(`SELECT kind, id, revision, created, updated, actor, body FROM headgate_objects
		JOIN unnest($2::text[], $3::text[]) AS wanted (kind, id) USING (kind, id) WHERE namespace = $1`, c.Namespace, kinds, ids).
		Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var n name
				var w previous
				if err := rows.Scan(&n.kind, &n.id, &w.revision, &w.created, &w.updated, &w.actor, &w.body); err != nil {
					return err
				}
				before[n] = w
			}
			return rows.Err()
		})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if c.Base != control.Any && c.Base != have {
		return &control.Conflict{Namespace: c.Namespace, Want: c.Base, Have: have}
	}
	c.Time = timeOf(now)
	return apply(ctx, tx, c, before)
}

// columns collects values column by column, so that one statement writes all of them.
type columns struct {
	kinds, ids []string
	bodies     []*string
	revisions  []int64
	created    []int64
	updated    []int64
	actors     []string
	before     []*string
}

func apply(ctx context.Context, tx pgx.Tx, c *control.Change, before map[name]previous) error {
	var ops, kept, removed columns
	forNodes := false
	for i := range c.Ops {
		op := &c.Ops[i]
		w := before[name{op.Kind, op.ID}]
		if op.Base != control.Any && op.Base != w.revision || op.Body == nil && w.revision == control.Absent {
			return &control.Conflict{Namespace: c.Namespace, Kind: op.Kind, ID: op.ID, Want: op.Base, Have: w.revision}
		}
		op.Before = nil
		if w.body != nil {
			op.Before = []byte(*w.body)
		}
		forNodes = forNodes || op.Kind.ForNodes()
		ops.kinds, ops.ids, ops.bodies = append(ops.kinds, string(op.Kind)), append(ops.ids, op.ID), append(ops.bodies,
			textOf(op.Body))
		ops.revisions, ops.created, ops.updated = append(ops.revisions, w.revision), append(ops.created, w.created), append(
			ops.updated, w.updated)
		ops.actors, ops.before = append(ops.actors, w.actor), append(ops.before, w.body)
		into := &kept
		if op.Body == nil {
			into = &removed
		}
		into.kinds, into.ids, into.bodies = append(into.kinds, string(op.Kind)), append(into.ids, op.ID), append(into.bodies,
			textOf(op.Body))
	}
	now := c.Time.UnixMicro()
	b := &pgx.Batch{}
	if len(removed.ids) > 0 {
		b.Queue(`DELETE FROM headgate_objects o USING unnest($2::text[], $3::text[]) AS gone (kind, id)
			WHERE o.namespace = $1 AND o.kind = gone.kind AND o.id = gone.id`, c.Namespace, removed.kinds, removed.ids)
	}
	if len(kept.ids) > 0 {
		b.Queue(`INSERT INTO headgate_objects (namespace, kind, id, revision, created, updated, actor, body)
			SELECT $1, kind, id, $2, $3, $3, $4, body FROM unnest($5::text[], $6::text[], $7::text[]) AS kept (kind, id, body)
			ON CONFLICT (kind, namespace, id) DO UPDATE SET revision = excluded.revision, updated = excluded.updated,
				actor = excluded.actor, body = excluded.body`,
			c.Namespace, c.Revision, now, c.Actor, kept.kinds, kept.ids, kept.bodies)
	}
	b.Queue(`INSERT INTO headgate_ops (revision, place, namespace, kind, id, body, was_revision, was_created, was_updated, was_actor, was_body)
		SELECT $1, place - 1, $2, kind, id, body, was_revision, was_created, was_updated, was_actor, was_body
		FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::text[]) WITH ORDINALITY
			AS ops (kind, id, body, was_revision, was_created, was_updated, was_actor, was_body, place)`,
		c.Revision, c.Namespace, ops.kinds, ops.ids, ops.bodies, ops.revisions, ops.created, ops.updated, ops.actors, ops.before)
	b.Queue("INSERT INTO headgate_changes (revision, namespace, time, actor, address, action, note) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		c.Revision, c.Namespace, now, c.Actor, c.From, c.Action, c.Note)
	b.Queue(`INSERT INTO headgate_namespaces AS n (name, last, nodes, pruned) VALUES ('', $2, $3, 0), ($1, $2, $3, 0)
		ON CONFLICT (name) DO UPDATE SET last = excluded.last, nodes = greatest(n.nodes, excluded.nodes)`,
		c.Namespace, c.Revision, nodesRevision(c.Revision, forNodes))
	b.Queue("SELECT pg_notify($1, $2::bigint::text)", channel, c.Revision)
	return tx.SendBatch(ctx, b).Close()
}

func nodesRevision(revision int64, forNodes bool) int64 {
	if forNodes {
		return revision
	}
	return 0
}

// textOf returns a body as text for PostgreSQL, or nil, which is NULL, if there is none.
func textOf(body []byte) *string {
	if body == nil {
		return nil
	}
	s := string(body)
	return &s
}
