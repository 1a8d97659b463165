package sqldb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/dump"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// Restore replaces all content by a backup, completely or not at all.
func (db *DB) Restore(ctx context.Context, r io.Reader, base int64) error {
	in, err := dump.NewReader(r)
	if err != nil {
		return err
	}
	err = db.change(ctx, "restore", tables.StreamTimeout, func(ctx context.Context, tx *sql.Tx, last int64) error {
		if base != control.AnyRevision && base != last {
			return fmt.Errorf("restore %s: %w: it is at revision %d", db.name, control.ErrNotEmpty, last)
		}
		for _, query := range []string{
			// TRUNCATE would also empty the snapshots of concurrent readers.
			"DELETE FROM headgate_objects", "DELETE FROM headgate_changes", "DELETE FROM headgate_ops",
			"DELETE FROM headgate_states",
			// Keep the row of all namespaces, because it is the lock that other writers wait for.
			"DELETE FROM headgate_namespaces WHERE name <> ''",
			"UPDATE headgate_namespaces SET last = 0, nodes = 0, pruned = 0",
		} {
			if _, err := tx.ExecContext(ctx, query); err != nil {
				return err
			}
		}
		if err := (&restore{db: db, tx: tx, rows: map[*table][]byte{}}).run(ctx, in); err != nil {
			return err
		}
		return db.notify(ctx, tx)
	})
	if err == nil {
		db.Changes.Notify()
	}
	return err
}

// The tables that a restore fills.
var (
	namespaceTable = table{
		name: "headgate_namespaces", columns: "name, last#, nodes#, pruned#",
		conflict: `WHERE true ON CONFLICT (name) DO UPDATE SET last = excluded.last, nodes = excluded.nodes,
			pruned = excluded.pruned`,
	}
	objectTable = table{
		name: "headgate_objects", columns: "namespace, kind, id, revision#, created#, updated#, actor, body",
	}
	changeTable = table{name: "headgate_changes", columns: "revision#, namespace, time#, actor, address, action, note"}
	opTable     = table{
		name: "headgate_ops", columns: "revision#, place#, namespace, kind, id, body, " +
			"was_revision#, was_created#, was_updated#, was_actor, was_body",
	}
	stateTable = table{name: "headgate_states", columns: "bucket, id, expires#, body"}
)

// A table describes a table to fill.
type table struct {
	name     string
	columns  string // separated by ", "; columns of numbers end with #
	conflict string // the end of the query, which handles rows whose key exists
}

// insert returns a query that inserts the rows of a JSON array.
func (t *table) insert(array string) string {
	columns := strings.Split(t.columns, ", ")
	for i, column := range columns {
		kind := "text"
		if strings.HasSuffix(column, "#") {
			kind = "bigint"
		}
		columns[i] = fmt.Sprintf("CAST(value->>%d AS %s)", i, kind)
	}
	return "INSERT INTO " + t.name + " (" + strings.ReplaceAll(t.columns, "#", "") + ") SELECT " +
		strings.Join(columns, ", ") + " FROM " + array + " " + t.conflict
}

// restoreBytes is the size of the rows that one query inserts.
const restoreBytes = 1 << 20

// A restore writes the lines of a backup to the tables.
type restore struct {
	db     *DB
	tx     *sql.Tx
	rows   map[*table][]byte // rows that are not written yet, in JSON; each row begins with a comma
	change *dump.Change      // the last change that was read
	place  int               // the index of its next operation
}

func (r *restore) run(ctx context.Context, in *dump.Reader) error {
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		into, values, err := r.row(line)
		if err != nil {
			return err
		}
		row, err := json.Marshal(values)
		if err != nil {
			return err
		}
		r.rows[into] = append(append(r.rows[into], ','), row...)
		// Write each namespace at once: a backup may have one twice, but a query with ON CONFLICT may not.
		if len(r.rows[into]) > restoreBytes || into == &namespaceTable {
			if err := r.flush(ctx, into); err != nil {
				return err
			}
		}
	}
	for into := range r.rows {
		if err := r.flush(ctx, into); err != nil {
			return err
		}
	}
	return nil
}

// row converts a line to a row, and returns it with its table.
func (r *restore) row(line *dump.Line) (*table, []any, error) {
	switch {
	case line.Namespace != nil:
		n := line.Namespace
		return &namespaceTable, []any{n.Name, n.Last, n.Nodes, n.Pruned}, nil
	case line.Object != nil:
		o := line.Object
		return &objectTable, []any{
			o.Namespace, o.Kind, o.ID, o.Revision, o.Created, o.Updated, o.By, string(o.Body),
		}, nil
	case line.Change != nil:
		c := line.Change
		r.change, r.place = c, 0
		return &changeTable, []any{c.Revision, c.Namespace, c.Time, c.Actor, c.From, c.Action, c.Note}, nil
	case line.Op != nil && r.change == nil:
		return nil, nil, errors.New("restore: an operation does not follow its change")
	case line.Op != nil:
		op, previous := line.Op, line.Op.Previous
		if previous == nil {
			previous = &dump.Previous{}
		}
		r.place++
		return &opTable, []any{
			r.change.Revision, r.place - 1, r.change.Namespace, op.Kind, op.ID, textOf(op.Body),
			previous.Revision, previous.Created, previous.Updated, previous.By, textOf(previous.Body),
		}, nil
	default:
		s := line.State
		return &stateTable, []any{s.Bucket, s.ID, s.Expires, string(s.Body)}, nil
	}
}

// flush writes the rows of a table.
func (r *restore) flush(ctx context.Context, into *table) error {
	rows := r.rows[into]
	if len(rows) == 0 {
		return nil
	}
	r.rows[into] = rows[:0]
	_, err := r.tx.ExecContext(ctx, into.insert(r.db.elements("$1")), "["+string(rows[1:])+"]")
	return err
}
