package sqldb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// The columns of changes and of their operations.
const (
	changeColumns = "revision, namespace, time, actor, address, action, note"
	opColumns     = "revision, place, namespace, kind, id, body, " +
		"was_revision, was_created, was_updated, was_actor, was_body"
)

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
		where.and("revision IN (SELECT revision FROM headgate_ops o "+
			"WHERE o.namespace = c.namespace AND o.kind = ? AND o.id = ?)", string(q.Kind), q.ID)
	case q.ID != "":
		where.and("revision IN (SELECT revision FROM headgate_ops o WHERE o.namespace = c.namespace AND o.id = ?)", q.ID)
	case q.Kind != "":
		where.and("EXISTS (SELECT 1 FROM headgate_ops o WHERE o.revision = c.revision AND o.kind = ?)", string(q.Kind))
	}
	order := "ASC"
	if q.Newest {
		order = "DESC"
	}
	query := "SELECT " + changeColumns + " FROM headgate_changes c WHERE " + where.String() + " ORDER BY revision " +
		order + " LIMIT " + where.arg(max(q.Limit, 1))
	var list []control.Change
	err := db.view(ctx, "read the log of", tables.CallTimeout, func(ctx context.Context, tx *sql.Tx) error {
		var err error
		if list, err = readChanges(ctx, tx, query, where.args...); err != nil {
			return err
		}
		return db.readOps(ctx, tx, list)
	})
	return list, err
}

func readChanges(ctx context.Context, q querier, query string, args ...any) (list []control.Change, err error) {
	err = each(ctx, q, func(rows *sql.Rows) error {
		c := control.Change{Base: control.AnyRevision}
		var micros int64
		err := rows.Scan(&c.Revision, &c.Namespace, &micros, &c.Actor, &c.From, &c.Action, &c.Note)
		c.Time = tables.TimeOf(micros)
		list = append(list, c)
		return err
	}, query, args...)
	return list, err
}

// readOps reads the operations of changes. Their Base is the revision of the object before the change.
func (db *DB) readOps(ctx context.Context, q querier, list []control.Change) error {
	index, numbers := map[int64]int{}, make([]int64, len(list))
	for i := range list {
		index[list[i].Revision], numbers[i] = i, list[i].Revision
	}
	return each(ctx, q, func(rows *sql.Rows) error {
		var revision int64
		var op control.Op
		if err := rows.Scan(&revision, &op.Kind, &op.ID, &op.Base, &op.Body, &op.Before); err != nil {
			return err
		}
		c := &list[index[revision]]
		c.Ops = append(c.Ops, op)
		return nil
	}, `SELECT revision, kind, id, was_revision, body, was_body FROM headgate_ops
		WHERE revision IN `+db.numbers("$1")+" ORDER BY revision, place", array(numbers))
}

// numbers returns SQL for the numbers of an array in a parameter.
func (db *DB) numbers(parameter string) string {
	return "(SELECT CAST(value->>0 AS bigint) FROM " + db.elements(parameter) + ")"
}

// array returns numbers as a JSON array of rows with one column.
func array(numbers []int64) string {
	rows := make([][1]int64, len(numbers))
	for i, n := range numbers {
		rows[i][0] = n
	}
	text, _ := json.Marshal(rows) // does not fail for numbers
	return string(text)
}

// Committed returns the time when a revision was committed.
func (db *DB) Committed(ctx context.Context, revision int64) (time.Time, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	var micros int64
	err := db.Read.QueryRowContext(ctx, "SELECT time FROM headgate_changes WHERE revision = $1", revision).Scan(&micros)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return tables.TimeOf(micros), db.Fault("read the log of", err)
}

// Since returns the current state of the objects that were changed after a revision.
func (db *DB) Since(
	ctx context.Context, namespace string, after int64, limit int,
) (changed []control.Object, revision int64, err error) {
	err = db.view(ctx, "read", tables.CallTimeout, func(ctx context.Context, tx *sql.Tx) error {
		r, err := readRevisions(ctx, tx, namespace)
		if err != nil {
			return err
		}
		if after < r.pruned || after > r.last {
			return tables.Pruned(namespace, after)
		}
		revision = r.nodes
		// There are few changes, but the planner does not know that. With || '', it does not scan the whole namespace by
		// kind. With the subquery, it does not read all objects to find deleted ones.
		err = eachObject(ctx, tx, tables.Collect(&changed), "SELECT "+objectColumns+` FROM headgate_objects
			WHERE namespace = $1 AND revision > $2 AND kind || '' IN `+tables.ForNodes+" LIMIT $3", namespace, after, limit+1)
		if err != nil {
			return err
		}
		err = eachObject(ctx, tx, tables.Collect(&changed), `
			SELECT namespace, kind, id, max(revision), 0, 0, '', NULL FROM headgate_ops p
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

// At returns the objects of a kind as of a revision. Objects that were changed later are read from the log, which has
// the content before their first later change.
func (db *DB) At(ctx context.Context, namespace string, kind control.Kind, revision int64) ([]control.Object, error) {
	var list []control.Object
	err := db.view(ctx, "read", tables.CallTimeout, func(ctx context.Context, tx *sql.Tx) error {
		r, err := readRevisions(ctx, tx, namespace)
		if err != nil {
			return err
		}
		if revision < r.pruned {
			return fmt.Errorf("namespace %s at %d: %w", namespace, revision, control.ErrPruned)
		}
		return eachObject(ctx, tx, tables.Collect(&list), `
			SELECT namespace, kind, id, was_revision, was_created, was_updated, was_actor, was_body FROM (
				SELECT *, row_number() OVER (PARTITION BY id ORDER BY revision) AS number FROM headgate_ops
				WHERE namespace = $1 AND kind = $2 AND revision > $3
			) AS later WHERE number = 1 AND was_revision > 0
			UNION ALL
			SELECT `+objectColumns+` FROM headgate_objects WHERE namespace = $1 AND kind = $2 AND revision <= $3
			ORDER BY 3`, namespace, kind, revision)
	})
	return list, err
}

// pruneBatch is the number of changes that Prune checks in one transaction. Other writes can run between two
// transactions.
const pruneBatch = 500

// Prune deletes changes older than a time, except the latest change of each object.
func (db *DB) Prune(ctx context.Context, before time.Time) (int, error) {
	total := 0
	for after := int64(0); ; {
		pruned, next, err := db.prune(ctx, before, after)
		if total += pruned; err != nil || next == 0 {
			return total, err
		}
		after = next
	}
}

// prune checks the next pruneBatch changes after a revision, and deletes those that are not needed. next is the last
// revision that it checked, 0 if there are no more changes to check.
func (db *DB) prune(ctx context.Context, before time.Time, after int64) (pruned int, next int64, err error) {
	err = db.change(ctx, "prune", tables.CallTimeout, func(ctx context.Context, tx *sql.Tx, _ int64) error {
		checked, unneeded, latest := 0, []int64{}, map[string]int64{} // latest deleted revision by namespace
		err := each(ctx, tx, func(rows *sql.Rows) error {
			var namespace string
			var needed bool
			if err := rows.Scan(&next, &namespace, &needed); err != nil {
				return err
			}
			if checked++; !needed {
				unneeded, latest[namespace] = append(unneeded, next), next
			}
			return nil
		}, `SELECT revision, namespace, EXISTS (
				SELECT 1 FROM headgate_ops p JOIN headgate_objects o USING (kind, namespace, id)
				WHERE p.revision = c.revision AND o.revision = c.revision)
			FROM headgate_changes c WHERE revision > $1 AND time < $2 ORDER BY revision LIMIT $3`,
			after, before.UnixMicro(), pruneBatch)
		if err != nil {
			return err
		}
		if pruned = len(unneeded); checked < pruneBatch {
			next = 0
		}
		for namespace, revision := range latest {
			_, err := tx.ExecContext(ctx, "UPDATE headgate_namespaces SET pruned = $1 WHERE name = $2 AND pruned < $1",
				revision, namespace)
			if err != nil {
				return err
			}
		}
		for _, table := range []string{"headgate_ops", "headgate_changes"} {
			_, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE revision IN "+db.numbers("$1"), array(unneeded))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	return pruned, next, nil
}
