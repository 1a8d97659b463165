package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// storable reports whether the texts can be stored. Callers must not query other texts, because PostgreSQL returns an
// error for them.
func storable(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !control.IsText(text) })
}

// revisions are the revisions of the last change of a namespace, of the last change of an object for nodes, and of the
// last pruned change.
type revisions struct{ last, nodes, pruned int64 }

func readRevisions(ctx context.Context, q querier, namespace string) (revisions, error) {
	var r revisions
	err := q.QueryRowContext(ctx, "SELECT last, nodes, pruned FROM headgate_namespaces WHERE name = $1", namespace).
		Scan(&r.last, &r.nodes, &r.pruned)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return r, err
}

// Revision returns the revisions of the last changes.
func (db *DB) Revision(ctx context.Context, namespace string) (last, forNodes int64, err error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	r, err := readRevisions(ctx, db.Read, namespace)
	return r.last, r.nodes, db.Fault("read", err)
}

// objectColumns are the columns that eachObject reads.
const objectColumns = "namespace, kind, id, revision, created, updated, actor, body"

// eachObject calls f for all objects of a query of objectColumns.
func eachObject(ctx context.Context, q querier, f func(*control.Object) error, query string, args ...any) error {
	return each(ctx, q, func(rows *sql.Rows) error {
		var o control.Object
		var created, updated int64
		err := rows.Scan(&o.Namespace, &o.Kind, &o.ID, &o.Revision, &created, &updated, &o.By, &o.Body)
		if err != nil {
			return err
		}
		o.Created, o.Updated = tables.TimeOf(created), tables.TimeOf(updated)
		return f(&o)
	}, query, args...)
}

// Get returns an object.
func (db *DB) Get(ctx context.Context, namespace string, kind control.Kind, id string) (*control.Object, error) {
	list, err := db.list(ctx, "kind = $1 AND namespace = $2 AND id = $3", string(kind), namespace, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s %s: %w", kind, id, control.ErrNotFound)
	}
	return &list[0], nil
}

// list returns the objects that match a condition in SQL.
func (db *DB) list(ctx context.Context, condition string, args ...any) ([]control.Object, error) {
	for _, arg := range args {
		if text, ok := arg.(string); ok && !storable(text) {
			return nil, nil
		}
	}
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	var list []control.Object
	err := eachObject(ctx, db.Read, tables.Collect(&list),
		"SELECT "+objectColumns+" FROM headgate_objects WHERE "+condition, args...)
	return list, db.Fault("read", err)
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
func (db *DB) condition(q *control.Query) *clause {
	c := &clause{}
	c.and("kind = ?", string(q.Kind))
	if q.Namespace != "" {
		c.and("namespace = ?", q.Namespace)
		if q.AfterID != "" {
			c.and("id > ?", q.AfterID)
		}
	} else if q.AfterNamespace != "" || q.AfterID != "" {
		c.and("(namespace, id) > (?, ?)", q.AfterNamespace, q.AfterID)
	}
	if q.Search != "" {
		// The search ignores the case of ASCII letters only. So does lower in SQLite, and in PostgreSQL with collation C.
		s, body, args := tables.SearchFor(q.Search), "body", []any{}
		args = append(args, s.ID)
		for _, name := range s.Names {
			body, args = "replace("+body+", ?, '')", append(args, name)
		}
		position := db.Dialect.Position
		c.and("("+position+"(lower(id), ?) > 0 OR "+position+"(lower("+body+"), ?) > 0)", append(args, s.Body)...)
	}
	return c
}

// List returns a page of objects.
func (db *DB) List(ctx context.Context, q control.Query) ([]control.Object, error) {
	where := db.condition(&q)
	return db.list(ctx, where.String()+" ORDER BY namespace, id LIMIT "+where.arg(max(q.Limit, 1)), where.args...)
}

// Count returns the number of objects.
func (db *DB) Count(ctx context.Context, q control.Query) (int, error) {
	if !storable(q.Namespace, string(q.Kind), q.Search) {
		return 0, nil
	}
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	where := db.condition(&q)
	var n int
	err := db.Read.QueryRowContext(ctx, "SELECT count(*) FROM headgate_objects WHERE "+where.String(), where.args...).
		Scan(&n)
	return n, db.Fault("read", err)
}

// Namespaces returns the names of the namespaces that have objects.
func (db *DB) Namespaces(ctx context.Context) ([]string, error) {
	ctx, cancel := tables.WithTimeout(ctx, tables.CallTimeout)
	defer cancel()
	var names []string
	err := each(ctx, db.Read, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	}, `SELECT name FROM headgate_namespaces WHERE name <> ''
		AND EXISTS (SELECT 1 FROM headgate_objects WHERE namespace = name) ORDER BY name`)
	return names, db.Fault("read", err)
}

// Snapshot calls f for all objects that nodes receive.
func (db *DB) Snapshot(
	ctx context.Context, namespace string, f func(*control.Object) error,
) (revision int64, err error) {
	err = db.view(ctx, "read", tables.StreamTimeout, func(ctx context.Context, tx *sql.Tx) error {
		r, err := readRevisions(ctx, tx, namespace)
		if err != nil {
			return err
		}
		revision = r.nodes
		for _, kind := range control.NodeKinds() {
			err := eachObject(ctx, tx, f, "SELECT "+objectColumns+
				" FROM headgate_objects WHERE kind = $1 AND namespace = $2 ORDER BY id", kind, namespace)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return revision, err
}
