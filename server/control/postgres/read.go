package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// A querier is a transaction or the connection pool.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// progress has the revisions of a namespace.
type progress struct{ last, nodes, pruned int64 }

func progressOf(ctx context.Context, q querier, namespace string) (progress, error) {
	var p progress
	err := q.QueryRow(ctx, "SELECT last, nodes, pruned FROM headgate_namespaces WHERE name = $1", namespace).Scan(&p.last,
		&p.nodes, &p.pruned)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return p, err
}

// Revision returns the revisions of the last changes.
func (db *DB) Revision(ctx context.Context, namespace string) (last, forNodes int64, err error) {
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	p, err := progressOf(ctx, db.pool, namespace)
	return p.last, p.nodes, db.fault("read", err)
}

// objectColumns are the columns that object reads.
const objectColumns = "namespace, kind, id, revision, created, updated, actor, body"

func object(row pgx.Row, o *control.Object) error {
	var created, updated int64
	var body *string
	if err := row.Scan(&o.Namespace, &o.Kind, &o.ID, &o.Revision, &created, &updated, &o.By, &body); err != nil {
		return err
	}
	o.Created, o.Updated = timeOf(created), timeOf(updated)
	if body != nil {
		o.Body = []byte(*body)
	}
	return nil
}

// each calls f for each row of a query.
func each(ctx context.Context, q querier, f func(pgx.Rows) error, query string, args ...any) error {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// objects calls f for all objects of a query of objectColumns.
func objects(ctx context.Context, q querier, f func(*control.Object) error, query string, args ...any) error {
	return each(ctx, q, func(rows pgx.Rows) error {
		var o control.Object
		if err := object(rows, &o); err != nil {
			return err
		}
		return f(&o)
	}, query, args...)
}

// storable reports whether texts can be in the database. PostgreSQL returns an error for others, so it must not be
// asked.
func storable(texts ...string) bool {
	for _, text := range texts {
		if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			return false
		}
	}
	return true
}

// Get returns an object.
func (db *DB) Get(ctx context.Context, namespace string, kind control.Kind, id string) (*control.Object, error) {
	if !storable(namespace, string(kind), id) {
		return nil, fmt.Errorf("%s %q: %w", kind, id, control.ErrNotFound)
	}
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	var o control.Object
	err := object(db.pool.QueryRow(ctx,
		"SELECT "+objectColumns+" FROM headgate_objects WHERE kind = $1 AND namespace = $2 AND id = $3",
		kind, namespace, id), &o)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("%s %s: %w", kind, id, control.ErrNotFound)
	}
	if err != nil {
		return nil, db.fault("read", err)
	}
	return &o, nil
}

// A clause builds the condition of a query: each ? of a part stands for the next argument.
type clause struct {
	parts []string
	args  []any
}

func (c *clause) and(part string, args ...any) {
	for _, arg := range args {
		part = strings.Replace(part, "?", c.arg(arg), 1)
	}
	c.parts = append(c.parts, part)
}

// arg adds an argument and returns its placeholder.
func (c *clause) arg(value any) string {
	c.args = append(c.args, value)
	return "$" + strconv.Itoa(len(c.args))
}

func (c *clause) String() string { return strings.Join(c.parts, " AND ") }

// condition returns the condition of a query, without its limit.
func condition(q *control.Query) *clause {
	c := &clause{}
	c.and("kind = ?", q.Kind)
	if q.Namespace != "" {
		c.and("namespace = ?", q.Namespace)
		if q.AfterID != "" {
			c.and("id > ?", q.AfterID)
		}
	} else if q.AfterNamespace != "" || q.AfterID != "" {
		c.and("(namespace, id) > (?, ?)", q.AfterNamespace, q.AfterID)
	}
	if q.Search != "" {
		// The columns have collation C, where lower changes only ASCII letters.
		s, body, values := tables.SearchFor(q.Search), "body", []any{}
		for _, name := range s.Names {
			body, values = "replace("+body+", ?, '')", append(values, name)
		}
		c.and("(strpos(lower(id), ?) > 0 OR strpos(lower("+body+"), ?) > 0)",
			append(append([]any{s.ID}, values...), s.Body)...)
	}
	return c
}

// List returns a page of objects.
func (db *DB) List(ctx context.Context, q control.Query) ([]control.Object, error) {
	if !storable(q.Namespace, string(q.Kind), q.Search) {
		return nil, nil
	}
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	where := condition(&q)
	query := "SELECT " + objectColumns + " FROM headgate_objects WHERE " + where.String() +
		" ORDER BY namespace, id LIMIT " + where.arg(max(q.Limit, 1))
	var list []control.Object
	err := objects(ctx, db.pool, tables.Collect(&list), query, where.args...)
	return list, db.fault("read", err)
}

// Count returns how many objects there are.
func (db *DB) Count(ctx context.Context, q control.Query) (int, error) {
	if !storable(q.Namespace, string(q.Kind), q.Search) {
		return 0, nil
	}
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	where := condition(&q)
	var n int
	err := db.pool.QueryRow(ctx, "SELECT count(*) FROM headgate_objects WHERE "+where.String(), where.args...).Scan(&n)
	return n, db.fault("read", err)
}

// Namespaces returns the names of the namespaces that have objects.
func (db *DB) Namespaces(ctx context.Context) ([]string, error) {
	ctx, cancel := withTimeout(ctx, callTimeout)
	defer cancel()
	var names []string
	err := each(ctx, db.pool, func(rows pgx.Rows) error {
		var s string
		err := rows.Scan(&s)
		names = append(names, s)
		return err
	}, `SELECT name FROM headgate_namespaces WHERE name <> ''
		AND EXISTS (SELECT 1 FROM headgate_objects WHERE namespace = name) ORDER BY name`)
	return names, db.fault("read", err)
}

// Snapshot calls each for all objects that nodes get.
func (db *DB) Snapshot(
	ctx context.Context, namespace string, f func(*control.Object) error,
) (revision int64, err error) {
	err = db.view(ctx, "read", streamTimeout, func(ctx context.Context, tx pgx.Tx) error {
		p, err := progressOf(ctx, tx, namespace)
		if err != nil {
			return err
		}
		revision = p.nodes
		return tables.Snapshot(func(kind control.Kind) error {
			return objects(ctx, tx, f,
				"SELECT "+objectColumns+" FROM headgate_objects WHERE kind = $1 AND namespace = $2 ORDER BY id", kind, namespace)
		})
	})
	return revision, err
}
