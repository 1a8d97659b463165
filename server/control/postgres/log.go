package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// changeColumns are the columns that change reads.
const changeColumns = "revision, namespace, time, actor, address, action, note"

func change(row pgx.Row) (control.Change, error) {
	c := control.Change{Base: control.Any}
	var when int64
	err := row.Scan(&c.Revision, &c.Namespace, &when, &c.Actor, &c.From, &c.Action, &c.Note)
	c.Time = timeOf(when)
	return c, err
}

// Log returns changes of the log.
func (db *DB) Log(ctx context.Context, q control.LogQuery) ([]control.Change, error) {
	if !storable(q.Namespace, string(q.Kind), q.ID) {
		return nil, nil
	}
	where := &clause{}
	where.and("revision > ?", q.After)
	if q.Before > 0 {
		where.and("revision < ?", q.Before)
	}
	if q.Namespace != "" {
		where.and("namespace = ?", q.Namespace)
	}
	switch {
	case q.ID != "" && q.Kind != "":
		where.and("revision IN (SELECT revision FROM headgate_ops o WHERE o.namespace = c.namespace AND o.kind = ? AND o.id = ?)", q.Kind, q.ID)
	case q.ID != "":
		where.and("revision IN (SELECT revision FROM headgate_ops o WHERE o.namespace = c.namespace AND o.id = ?)", q.ID)
	case q.Kind != "":
		where.and("EXISTS (SELECT 1 FROM headgate_ops o WHERE o.revision = c.revision AND o.kind = ?)", q.Kind)
	}
	order := "ASC"
	if q.Newest {
		order = "DESC"
	}
	query := "SELECT " + changeColumns + " FROM headgate_changes c WHERE " + where.String() + " ORDER BY revision " +
		order + " LIMIT " + where.arg(max(q.Limit, 1))
	var list []control.Change
	err := db.view(ctx, "read the log of", callTimeout, func(ctx context.Context, tx pgx.Tx) error {
		places, revisions := map[int64]int{}, []int64{}
		err := each(ctx, tx, func(rows pgx.Rows) error {
			c, err := change(rows)
			places[c.Revision], revisions = len(list), append(revisions, c.Revision)
			list = append(list, c)
			return err
		}, query, where.args...)
		if err != nil {
			return err
		}
		return each(ctx, tx, func(rows pgx.Rows) error {
			var revision int64
			var op control.Op
			var body, before *string
			if err := rows.Scan(&revision, &op.Kind, &op.ID, &op.Base, &body, &before); err != nil {
				return err
			}
			op.Body, op.Before = bytesOf(body), bytesOf(before)
			c := &list[places[revision]]
			c.Ops = append(c.Ops, op)
			return nil
		}, "SELECT revision, kind, id, was_revision, body, was_body FROM headgate_ops WHERE revision = ANY($1) ORDER BY revision, place", revisions)
	})
	return list, err
}

func bytesOf(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

// Committed returns when a revision was committed.
func (db *DB) Committed(ctx context.Context, revision int64) (time.Time, error) {
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	var when int64
	err := db.pool.QueryRow(ctx, "SELECT time FROM headgate_changes WHERE revision = $1", revision).Scan(&when)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	return timeOf(when), db.fault("read the log of", err)
}

// Since returns the current state of the objects that were changed after a revision.
func (db *DB) Since(
	ctx context.Context, namespace string, after int64, limit int,
) (changed []control.Object, revision int64, err error) {
	err = db.view(ctx, "read", callTimeout, func(ctx context.Context, tx pgx.Tx) error {
		p, err := progressOf(ctx, tx, namespace)
		if err != nil {
			return err
		}
		if after < p.pruned || after > p.last {
			return tables.Pruned(namespace, after)
		}
		revision = p.nodes
		// The changes are few, but the planner does not know: || '' prevents a scan of a whole namespace by kind, and
		// the subquery prevents reading all objects to find deleted ones.
		err = objects(ctx, tx, tables.Collect(&changed), "SELECT "+objectColumns+` FROM headgate_objects
			WHERE namespace = $1 AND revision > $2 AND kind || '' IN `+tables.ForNodes+" LIMIT $3", namespace, after, limit+1)
		if err != nil {
			return err
		}
		err = objects(ctx, tx, tables.Collect(&changed), `SELECT namespace, kind, id, max(revision), 0, 0, '', NULL FROM headgate_ops p
			WHERE revision > $1 AND namespace || '' = $2 AND kind || '' IN `+tables.ForNodes+`
			AND (SELECT true FROM headgate_objects o WHERE o.kind = p.kind AND o.namespace = p.namespace AND o.id = p.id) IS NULL
			GROUP BY namespace, kind, id LIMIT $3`, after, namespace, limit+1)
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

// At returns the objects of a kind at a revision: unchanged objects as they are, others as they were before their
// first later change.
func (db *DB) At(ctx context.Context, namespace string, kind control.Kind, revision int64) ([]control.Object, error) {
	var list []control.Object
	err := db.view(ctx, "read", callTimeout, func(ctx context.Context, tx pgx.Tx) error {
		p, err := progressOf(ctx, tx, namespace)
		if err != nil {
			return err
		}
		if revision < p.pruned {
			return fmt.Errorf("namespace %s at %d: %w", namespace, revision, control.ErrPruned)
		}
		return objects(ctx, tx, tables.Collect(&list), `
			SELECT * FROM (
				SELECT DISTINCT ON (id) namespace, kind, id, was_revision AS revision, was_created, was_updated, was_actor, was_body
				FROM headgate_ops WHERE namespace = $1 AND kind = $2 AND revision > $3 ORDER BY id, headgate_ops.revision
			) AS first WHERE revision > 0
			UNION ALL
			SELECT `+objectColumns+` FROM headgate_objects WHERE namespace = $1 AND kind = $2 AND revision <= $3
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
	err = db.change(ctx, "prune", callTimeout, func(ctx context.Context, tx pgx.Tx, _ int64) error {
		var looked int
		var unneeded []int64
		err := each(ctx, tx, func(rows pgx.Rows) error {
			var needed bool
			if err := rows.Scan(&next, &needed); err != nil {
				return err
			}
			if looked++; !needed {
				unneeded = append(unneeded, next)
			}
			return nil
		}, `SELECT revision, EXISTS (SELECT 1 FROM headgate_ops p JOIN headgate_objects o USING (kind, namespace, id)
				WHERE p.revision = c.revision AND o.revision = c.revision)
			FROM headgate_changes c WHERE revision > $1 AND time < $2 ORDER BY revision LIMIT $3`, after, before.UnixMicro(), tables.PruneBatch)
		if err != nil {
			return err
		}
		if pruned = len(unneeded); looked < tables.PruneBatch {
			next = 0
		}
		b := &pgx.Batch{}
		b.Queue(`UPDATE headgate_namespaces n SET pruned = greatest(pruned, gone.revision) FROM (
				SELECT namespace, max(revision) AS revision FROM headgate_changes WHERE revision = ANY($1) GROUP BY namespace
			) AS gone WHERE n.name = gone.namespace`, unneeded)
		b.Queue("DELETE FROM headgate_ops WHERE revision = ANY($1)", unneeded)
		b.Queue("DELETE FROM headgate_changes WHERE revision = ANY($1)", unneeded)
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return 0, 0, err
	}
	return pruned, next, nil
}
