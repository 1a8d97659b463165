package sqldb

import (
	"context"
	"database/sql"
	"io"
	"time"

	"github.com/headgate/headgate/server/control/internal/dump"
	"github.com/headgate/headgate/server/control/internal/tables"
)

// Dump writes a consistent backup.
func (db *DB) Dump(ctx context.Context, w io.Writer) error {
	return db.view(ctx, "back up", tables.StreamTimeout, func(ctx context.Context, tx *sql.Tx) error {
		out, err := dump.NewWriter(w, time.Now())
		if err != nil {
			return err
		}
		b := &backup{out: out}
		for _, part := range []struct {
			query string
			write func(*sql.Rows) error
		}{
			{"SELECT name, last, nodes, pruned FROM headgate_namespaces ORDER BY name", b.namespace},
			{"SELECT " + objectColumns + " FROM headgate_objects ORDER BY kind, namespace, id", b.object},
			{`SELECT c.revision, c.namespace, c.time, c.actor, c.address, c.action, c.note,
				p.kind, p.id, p.body, p.was_revision, p.was_created, p.was_updated, p.was_actor, p.was_body
				FROM headgate_changes c JOIN headgate_ops p USING (revision) ORDER BY c.revision, p.place`, b.op},
			{"SELECT bucket, id, expires, body FROM headgate_states WHERE expires > " + db.Dialect.Now() +
				" ORDER BY bucket, id", b.state},
		} {
			if err := each(ctx, tx, part.write, part.query); err != nil {
				return err
			}
		}
		return out.Close()
	})
}

// A backup writes the rows of the tables to a dump.
type backup struct {
	out    *dump.Writer
	change int64 // revision of the change that was written last
}

func (b *backup) namespace(rows *sql.Rows) error {
	var n dump.Namespace
	if err := rows.Scan(&n.Name, &n.Last, &n.Nodes, &n.Pruned); err != nil {
		return err
	}
	return b.out.Write(dump.Line{Namespace: &n})
}

func (b *backup) object(rows *sql.Rows) error {
	var o dump.Object
	err := rows.Scan(&o.Namespace, &o.Kind, &o.ID, &o.Revision, &o.Created, &o.Updated, &o.By, (*[]byte)(&o.Body))
	if err != nil {
		return err
	}
	return b.out.Write(dump.Line{Object: &o})
}

// op writes an operation. Before the first operation of a change, it writes the change.
func (b *backup) op(rows *sql.Rows) error {
	var c dump.Change
	var op dump.Op
	var previous dump.Previous
	err := rows.Scan(&c.Revision, &c.Namespace, &c.Time, &c.Actor, &c.From, &c.Action, &c.Note,
		&op.Kind, &op.ID, (*[]byte)(&op.Body),
		&previous.Revision, &previous.Created, &previous.Updated, &previous.By, (*[]byte)(&previous.Body))
	if err != nil {
		return err
	}
	if c.Revision != b.change {
		b.change = c.Revision
		if err := b.out.Write(dump.Line{Change: &c}); err != nil {
			return err
		}
	}
	if previous.Revision != 0 {
		op.Previous = &previous
	}
	return b.out.Write(dump.Line{Op: &op})
}

func (b *backup) state(rows *sql.Rows) error {
	var s dump.State
	if err := rows.Scan(&s.Bucket, &s.ID, &s.Expires, (*[]byte)(&s.Body)); err != nil {
		return err
	}
	return b.out.Write(dump.Line{State: &s})
}
