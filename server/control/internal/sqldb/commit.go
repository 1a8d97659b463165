package sqldb

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// batchSize is the number of rows that one query writes.
const batchSize = 1000

// Commit commits a change.
func (db *DB) Commit(ctx context.Context, c *control.Change) error {
	if err := c.Validate(); err != nil {
		return err
	}
	result := *c
	result.Ops = slices.Clone(c.Ops)
	err := db.change(ctx, "commit to", tables.CallTimeout, func(ctx context.Context, tx *sql.Tx, last int64) error {
		result.Revision = last + 1
		return db.commit(ctx, tx, &result)
	})
	if err != nil {
		return err
	}
	*c = result
	db.Changes.Notify()
	return nil
}

// commit writes a change whose Revision is set. It sets the Time of the change, and Before of its operations.
func (db *DB) commit(ctx context.Context, tx *sql.Tx, c *control.Change) error {
	var have, now int64
	err := tx.QueryRowContext(ctx, "SELECT coalesce((SELECT last FROM headgate_namespaces WHERE name = $1), 0), "+
		db.Dialect.Now(), c.Namespace).Scan(&have, &now)
	if err != nil {
		return err
	}
	if c.Base != control.AnyRevision && c.Base != have {
		return &control.Conflict{Namespace: c.Namespace, Want: c.Base, Have: have}
	}
	c.Time = tables.TimeOf(now)
	for first := 0; first < len(c.Ops); first += batchSize {
		if err := db.apply(ctx, tx, c, c.Ops[first:min(first+batchSize, len(c.Ops))], first); err != nil {
			return err
		}
	}
	forNodes := int64(0) // stays 0 if nodes receive none of the objects
	if slices.ContainsFunc(c.Ops, func(op control.Op) bool { return op.Kind.ForNodes() }) {
		forNodes = c.Revision
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO headgate_changes ("+changeColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7)",
		c.Revision, c.Namespace, now, c.Actor, c.From, c.Action, c.Note)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO headgate_namespaces AS n (name, last, nodes, pruned)
		VALUES ('', $2, $3, 0), ($1, $2, $3, 0) ON CONFLICT (name) DO UPDATE SET last = excluded.last,
			nodes = CASE WHEN excluded.nodes > 0 THEN excluded.nodes ELSE n.nodes END`, c.Namespace, c.Revision, forNodes)
	if err != nil {
		return err
	}
	return db.notify(ctx, tx)
}

// notify requests a notification of other processes, which the database sends when the transaction is committed.
func (db *DB) notify(ctx context.Context, tx *sql.Tx) error {
	if db.Dialect.Notify == "" {
		return nil
	}
	_, err := tx.ExecContext(ctx, db.Dialect.Notify)
	return err
}

// apply writes some operations of a change, and sets their Before. first is the index of the first one in the change.
func (db *DB) apply(ctx context.Context, tx *sql.Tx, c *control.Change, ops []control.Op, first int) error {
	rows := make([][]any, len(ops))
	for i := range ops {
		rows[i] = []any{first + i, ops[i].Kind, ops[i].ID, textOf(ops[i].Body)}
	}
	array, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	list := `(SELECT CAST(value->>0 AS bigint) AS place, value->>1 AS kind, value->>2 AS id, value->>3 AS body FROM ` +
		db.elements("$1") + ") AS op"
	listAndObjects := list + ` LEFT JOIN headgate_objects o ON o.kind = op.kind AND o.namespace = $2 AND o.id = op.id`

	err = each(ctx, tx, func(rows *sql.Rows) error {
		var place int
		var have int64
		var before []byte
		if err := rows.Scan(&place, &have, &before); err != nil {
			return err
		}
		op := &ops[place-first]
		op.Before = before
		if op.Base != control.AnyRevision && op.Base != have || op.Body == nil && have == control.Absent {
			return &control.Conflict{Namespace: c.Namespace, Kind: op.Kind, ID: op.ID, Want: op.Base, Have: have}
		}
		return nil
	}, "SELECT place, coalesce(o.revision, 0), o.body FROM "+listAndObjects+" ORDER BY place", string(array), c.Namespace)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO headgate_ops ("+opColumns+`)
		SELECT CAST($3 AS bigint), place, CAST($2 AS text), op.kind, op.id, op.body, coalesce(o.revision, 0),
			coalesce(o.created, 0), coalesce(o.updated, 0), coalesce(o.actor, ''), o.body
		FROM `+listAndObjects, string(array), c.Namespace, c.Revision)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM headgate_objects WHERE namespace = $2
		AND (kind, id) IN (SELECT kind, id FROM `+list+" WHERE body IS NULL)", string(array), c.Namespace)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `
		INSERT INTO headgate_objects (kind, namespace, id, revision, created, updated, actor, body)
		SELECT kind, CAST($2 AS text), id, CAST($3 AS bigint), CAST($4 AS bigint), CAST($4 AS bigint), CAST($5 AS text), body
		FROM `+list+` WHERE body IS NOT NULL
		ON CONFLICT (kind, namespace, id) DO UPDATE SET revision = excluded.revision, updated = excluded.updated,
			actor = excluded.actor, body = excluded.body`,
		string(array), c.Namespace, c.Revision, c.Time.UnixMicro(), c.Actor)
	return err
}

// textOf returns a body as a string, or nil, which is NULL in SQL, if there is none.
func textOf(body []byte) any {
	if body == nil {
		return nil
	}
	return string(body)
}
