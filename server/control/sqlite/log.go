package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// Log returns changes of the log.
func (db *DB) Log(ctx context.Context, q control.LogQuery) ([]control.Change, error) {
	where, args := []string{"revision > ?"}, []any{q.After}
	add := func(text string, values ...any) {
		where = append(where, text)
		args = append(args, values...)
	}
	if q.Before > 0 {
		add("revision < ?", q.Before)
	}
	if q.Namespace != "" {
		add("namespace = ?", q.Namespace)
	}
	switch {
	case q.ID != "" && q.Kind != "":
		add("revision IN (SELECT revision FROM ops WHERE kind = ? AND id = ? AND namespace = changes.namespace)", q.Kind,
			q.ID)
	case q.ID != "":
		add("revision IN (SELECT revision FROM ops WHERE id = ? AND namespace = changes.namespace)", q.ID)
	case q.Kind != "":
		add("EXISTS (SELECT 1 FROM ops WHERE ops.revision = changes.revision AND kind = ?)", q.Kind)
	}
	order := "ASC"
	if q.Newest {
		order = "DESC"
	}
	query := "SELECT revision, namespace, time, actor, address, action, note FROM changes WHERE " + strings.Join(where,
		" AND ") +
		" ORDER BY revision " + order + " LIMIT ?"
	args = append(args, max(q.Limit, 1))
	var list []control.Change
	err := db.view(ctx, "read the log of", func(tx *sql.Tx) error {
		if err := changes(ctx, tx, &list, query, args...); err != nil {
			return err
		}
		for i := range list {
			if err := readOps(ctx, tx, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}

func changes(ctx context.Context, q querier, into *[]control.Change, query string, args ...any) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		c := control.Change{Base: control.Any}
		var when int64
		err := rows.Scan(&c.Revision, &c.Namespace, &when, &c.Actor, &c.From, &c.Action, &c.Note)
		c.Time = at(when)
		*into = append(*into, c)
		return err
	}, query, args...)
}

// readOps reads the operations of a change. Base is the revision of the object before it.
func readOps(ctx context.Context, q querier, c *control.Change) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var op control.Op
		err := rows.Scan(&op.Kind, &op.ID, &op.Base, &op.Body, &op.Before)
		c.Ops = append(c.Ops, op)
		return err
	}, "SELECT kind, id, was_revision, body, was_body FROM ops WHERE revision = ? ORDER BY place", c.Revision)
}

// Committed returns when a revision was committed.
func (db *DB) Committed(ctx context.Context, revision int64) (time.Time, error) {
	var when int64
	err := db.read.QueryRowContext(ctx, "SELECT time FROM changes WHERE revision = ?", revision).Scan(&when)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return at(when), db.fault("read the log of", err)
}

// Since returns the current state of the objects that were changed after a revision.
func (db *DB) Since(
	ctx context.Context, namespace string, after int64, limit int,
) (changed []control.Object, revision int64, err error) {
	err = db.view(ctx, "read", func(tx *sql.Tx) error {
		p, err := progressOf(ctx, tx, namespace)
		if err != nil {
			return err
		}
		if after < p.pruned || after > p.last {
			return tables.Pruned(namespace, after)
		}
		revision = p.nodes
		// The plus signs make SQLite use the index of revisions instead of that of kinds.
		err = objects(ctx, tx, tables.Collect(&changed), "SELECT "+columns+` FROM objects
			WHERE namespace = ? AND revision > ? AND +kind IN `+tables.ForNodes+" LIMIT ?", namespace, after, limit+1)
		if err != nil {
			return err
		}
		err = objects(ctx, tx, tables.Collect(&changed), `SELECT namespace, kind, id, max(revision), 0, 0, '', NULL FROM ops
			WHERE revision > ?1 AND +namespace = ?2 AND +kind IN `+tables.ForNodes+`
			AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.kind = ops.kind AND o.namespace = ops.namespace AND o.id = ops.id)
			GROUP BY kind, id LIMIT ?3`, after, namespace, limit+1)
		if err == nil && len(changed) > limit {
			err = tables.TooMany(namespace, after, limit)
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return changed, revision, nil
}

// At returns the objects of a kind at a revision: unchanged objects as they are, others as they were before their first
// later change.
func (db *DB) At(ctx context.Context, namespace string, kind control.Kind, revision int64) ([]control.Object, error) {
	var list []control.Object
	err := db.view(ctx, "read", func(tx *sql.Tx) error {
		p, err := progressOf(ctx, tx, namespace)
		if err != nil {
			return err
		}
		if revision < p.pruned {
			return fmt.Errorf("namespace %s at %d: %w", namespace, revision, control.ErrPruned)
		}
		return objects(ctx, tx, tables.Collect(&list), `
			WITH first AS (
				SELECT id, min(revision) AS revision FROM ops WHERE namespace = ?1 AND kind = ?2 AND revision > ?3 GROUP BY id
			)
			SELECT namespace, kind, id, was_revision, was_created, was_updated, was_actor, was_body
			FROM first JOIN ops USING (id, revision) WHERE namespace = ?1 AND kind = ?2 AND was_revision > 0
			UNION ALL
			SELECT `+columns+` FROM objects WHERE namespace = ?1 AND kind = ?2 AND revision <= ?3
			ORDER BY 3`, namespace, kind, revision)
	})
	return list, err
}

// Prune deletes changes older than a time, except those that are the latest of an object.
func (db *DB) Prune(ctx context.Context, before time.Time) (int, error) {
	return tables.Prune(func(after int64) (int, int64, error) { return db.prune(ctx, before, after) })
}

// prune checks some changes after a revision, and returns the last revision it checked, 0 if that was all.
func (db *DB) prune(ctx context.Context, before time.Time, after int64) (pruned int, next int64, err error) {
	err = db.change(ctx, "prune", func(tx *sql.Tx) error {
		var old []control.Change
		err := changes(ctx, tx, &old, `SELECT revision, namespace, time, actor, address, action, note FROM changes
			WHERE revision > ? AND time < ? ORDER BY revision LIMIT ?`, after, micros(before), tables.PruneBatch)
		if err != nil {
			return err
		}
		for i := range old {
			c := &old[i]
			if next = 0; len(old) == tables.PruneBatch {
				next = c.Revision
			}
			var needed bool
			err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM ops JOIN objects USING (kind, namespace, id)
				WHERE ops.revision = ? AND objects.revision = ops.revision)`, c.Revision).Scan(&needed)
			if err != nil {
				return err
			}
			if needed {
				continue
			}
			pruned++
			for _, query := range []string{
				"DELETE FROM ops WHERE revision = ?1", "DELETE FROM changes WHERE revision = ?1",
				"UPDATE namespaces SET pruned = max(pruned, ?1) WHERE name = ?2",
			} {
				args := []any{c.Revision, c.Namespace}
				if !strings.Contains(query, "?2") {
					args = args[:1]
				}
				if _, err := tx.ExecContext(ctx, query, args...); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return pruned, next, nil
}
