package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/dump"
)

// Dump writes a consistent backup.
func (db *DB) Dump(ctx context.Context, w io.Writer) error {
	return db.view(ctx, "back up", func(tx *sql.Tx) error {
		out, err := dump.NewWriter(w, time.Now())
		if err != nil {
			return err
		}
		for _, part := range []func(context.Context, *sql.Tx, *dump.Writer) error{
			dumpNamespaces, dumpObjects, dumpChanges,
			dumpStates,
		} {
			if err := part(ctx, tx, out); err != nil {
				return err
			}
		}
		return out.Close()
	})
}

func dumpNamespaces(ctx context.Context, tx *sql.Tx, out *dump.Writer) error {
	return each(ctx, tx, func(rows *sql.Rows) error {
		var n dump.Namespace
		if err := rows.Scan(&n.Name, &n.Last, &n.Nodes, &n.Pruned); err != nil {
			return err
		}
		return out.Write(dump.Line{Namespace: &n})
	}, "SELECT name, last, nodes, pruned FROM namespaces ORDER BY name")
}

func dumpObjects(ctx context.Context, tx *sql.Tx, out *dump.Writer) error {
	return each(ctx, tx, func(rows *sql.Rows) error {
		var o dump.Object
		if err := rows.Scan(&o.Namespace, &o.Kind, &o.ID, &o.Revision, &o.Created, &o.Updated, &o.By,
			(*[]byte)(&o.Body)); err != nil {
			return err
		}
		return out.Write(dump.Line{Object: &o})
	}, "SELECT "+columns+" FROM objects ORDER BY kind, namespace, id")
}

func dumpChanges(ctx context.Context, tx *sql.Tx, out *dump.Writer) error {
	return each(ctx, tx, func(rows *sql.Rows) error {
		var c dump.Change
		if err := rows.Scan(&c.Revision, &c.Namespace, &c.Time, &c.Actor, &c.From, &c.Action, &c.Note); err != nil {
			return err
		}
		if err := out.Write(dump.Line{Change: &c}); err != nil {
			return err
		}
		return each(ctx, tx, func(rows *sql.Rows) error {
			var op dump.Op
			var was dump.Was
			var body, before []byte
			if err := rows.Scan(&op.Kind, &op.ID, &body, &was.Revision, &was.Created, &was.Updated, &was.By,
				&before); err != nil {
				return err
			}
			op.Body, was.Body = json.RawMessage(body), json.RawMessage(before)
			if was.Revision != 0 {
				op.Was = &was
			}
			return out.Write(dump.Line{Op: &op})
		}, "SELECT kind, id, body, was_revision, was_created, was_updated, was_actor, was_body FROM ops WHERE revision = ? ORDER BY place", c.Revision)
	}, "SELECT revision, namespace, time, actor, address, action, note FROM changes ORDER BY revision")
}

func dumpStates(ctx context.Context, tx *sql.Tx, out *dump.Writer) error {
	list, err := states(ctx, tx, "SELECT bucket, id, expires, body FROM states WHERE expires > ? ORDER BY bucket, id",
		micros(time.Now()))
	if err != nil {
		return err
	}
	for _, s := range list {
		err := out.Write(dump.Line{State: &dump.State{Bucket: s.Bucket, ID: s.ID, Expires: micros(s.Expires), Body: s.Body}})
		if err != nil {
			return err
		}
	}
	return nil
}

// Restore replaces everything with a backup, completely or not at all.
func (db *DB) Restore(ctx context.Context, r io.Reader, over int64) error {
	in, err := dump.NewReader(r)
	if err != nil {
		return err
	}
	err = db.change(ctx, "restore", func(tx *sql.Tx) error {
		p, err := progressOf(ctx, tx, "")
		if err != nil {
			return err
		}
		if over != control.Any && over != p.last {
			return fmt.Errorf("restore %s: %w: it is at revision %d", db.path, control.ErrNotEmpty, p.last)
		}
		for _, table := range []string{"namespaces", "objects", "changes", "ops", "states"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO namespaces VALUES ('', 0, 0, 0)"); err != nil {
			return err
		}
		s := statements{ctx: ctx, tx: tx}
		return errors.Join(restore(&s, in), s.close())
	})
	if err == nil {
		db.changes.Notify()
	}
	return err
}

func restore(s *statements, in *dump.Reader) error {
	var change *dump.Change
	place := 0
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case line.Namespace != nil:
			n := line.Namespace
			err = s.exec(`INSERT INTO namespaces VALUES (?1, ?2, ?3, ?4)
				ON CONFLICT (name) DO UPDATE SET last = ?2, nodes = ?3, pruned = ?4`, n.Name, n.Last, n.Nodes, n.Pruned)
		case line.Object != nil:
			o := line.Object
			err = s.exec("INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
				o.Kind, o.Namespace, o.ID, o.Revision, o.Created, o.Updated, o.By, string(o.Body))
		case line.Change != nil:
			change, place = line.Change, 0
			err = s.exec("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)",
				change.Revision, change.Namespace, change.Time, change.Actor, change.From, change.Action, change.Note)
		case line.Op != nil && change == nil:
			err = errors.New("restore: part of a change without a change in front of it")
		case line.Op != nil:
			op, was := line.Op, line.Op.Was
			if was == nil {
				was = &dump.Was{}
			}
			err = s.exec("INSERT INTO ops VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", change.Revision, place, change.Namespace,
				op.Kind, op.ID,
				text(op.Body), was.Revision, was.Created, was.Updated, was.By, text(was.Body))
			place++
		case line.State != nil:
			err = s.exec("INSERT INTO states VALUES (?1, ?2, ?3, ?4) ON CONFLICT (bucket, id) DO UPDATE SET expires = ?3, body = ?4",
				line.State.Bucket, line.State.ID, line.State.Expires, string(line.State.Body))
		}
		if err != nil {
			return err
		}
	}
}
