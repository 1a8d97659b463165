package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// A querier is a transaction or the connection pool.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// progress has the revisions of a namespace.
type progress struct{ last, nodes, pruned int64 }

func progressOf(ctx context.Context, q querier, namespace string) (progress, error) {
	var p progress
	err := q.QueryRowContext(ctx, "SELECT last, nodes, pruned FROM namespaces WHERE name = ?", namespace).Scan(&p.last,
		&p.nodes, &p.pruned)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return p, err
}

// Revision returns the revisions of the last changes.
func (db *DB) Revision(ctx context.Context, namespace string) (last, forNodes int64, err error) {
	p, err := progressOf(ctx, db.read, namespace)
	return p.last, p.nodes, db.fault("read", err)
}

// columns are the columns that object reads.
const columns = "namespace, kind, id, revision, created, updated, actor, body"

func object(row interface{ Scan(...any) error }, o *control.Object) error {
	var created, updated int64
	if err := row.Scan(&o.Namespace, &o.Kind, &o.ID, &o.Revision, &created, &updated, &o.By, &o.Body); err != nil {
		return err
	}
	o.Created, o.Updated = at(created), at(updated)
	return nil
}

// each calls f for each row of a query.
func each(ctx context.Context, q querier, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has the error
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// objects calls f for all objects of a query of columns.
func objects(ctx context.Context, q querier, f func(*control.Object) error, query string, args ...any) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var o control.Object
		if err := object(rows, &o); err != nil {
			return err
		}
		return f(&o)
	}, query, args...)
}

// Get returns an object.
func (db *DB) Get(ctx context.Context, namespace string, kind control.Kind, id string) (*control.Object, error) {
	var o control.Object
	row := db.read.QueryRowContext(ctx, "SELECT "+columns+" FROM objects WHERE kind = ? AND namespace = ? AND id = ?",
		kind, namespace, id)
	err := object(row, &o)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%s %s: %w", kind, id, control.ErrNotFound)
	}
	if err != nil {
		return nil, db.fault("read", err)
	}
	return &o, nil
}

// condition returns the condition of a query, without its limit.
func condition(q *control.Query) (where string, args []any) {
	where, args = "kind = ?", []any{q.Kind}
	add := func(text string, values ...any) {
		where += " AND " + text
		args = append(args, values...)
	}
	if q.Namespace != "" {
		add("namespace = ?", q.Namespace)
		if q.AfterID != "" {
			add("id > ?", q.AfterID)
		}
	} else if q.AfterNamespace != "" || q.AfterID != "" {
		add("(namespace, id) > (?, ?)", q.AfterNamespace, q.AfterID)
	}
	if q.Search != "" {
		// SQLite's lower changes only ASCII letters, like the search.
		s, body, values := tables.SearchFor(q.Search), "body", []any{}
		for _, name := range s.Names {
			body, values = "replace("+body+", ?, '')", append(values, name)
		}
		add("(instr(lower(id), ?) OR instr(lower("+body+"), ?))", append(append([]any{s.ID}, values...), s.Body)...)
	}
	return where, args
}

// List returns a page of objects.
func (db *DB) List(ctx context.Context, q control.Query) ([]control.Object, error) {
	where, args := condition(&q)
	var list []control.Object
	err := objects(ctx, db.read, tables.Collect(&list),
		"SELECT "+columns+" FROM objects WHERE "+where+" ORDER BY namespace, id LIMIT ?",
		append(args, max(q.Limit, 1))...)
	return list, db.fault("read", err)
}

// Count returns the number of objects.
func (db *DB) Count(ctx context.Context, q control.Query) (int, error) {
	where, args := condition(&q)
	var n int
	err := db.read.QueryRowContext(ctx, "SELECT count(*) FROM objects WHERE "+where, args...).Scan(&n)
	return n, db.fault("read", err)
}

// Namespaces returns the names of the namespaces that have objects.
func (db *DB) Namespaces(ctx context.Context) ([]string, error) {
	var names []string
	err := each(ctx, db.read, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	}, `SELECT name FROM namespaces WHERE name <> ''
		AND EXISTS (SELECT 1 FROM objects WHERE namespace = name) ORDER BY name`)
	return names, db.fault("read", err)
}

// Snapshot calls f for all objects that nodes receive.
func (db *DB) Snapshot(
	ctx context.Context, namespace string, f func(*control.Object) error,
) (revision int64, err error) {
	err = db.view(ctx, "read", func(tx *sql.Tx) error {
		p, err := progressOf(ctx, tx, namespace)
		if err != nil {
			return err
		}
		revision = p.nodes
		return tables.Snapshot(func(kind control.Kind) error {
			return objects(ctx, tx, f, "SELECT "+columns+" FROM objects WHERE kind = ? AND namespace = ? ORDER BY id", kind,
				namespace)
		})
	})
	return revision, err
}
