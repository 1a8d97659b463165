package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/internal/dump"
)

// Dump writes a consistent backup.
func (db *DB) Dump(ctx context.Context, w io.Writer) error {
	return db.view(ctx, "back up", streamTimeout, func(ctx context.Context, tx pgx.Tx) error {
		out, err := dump.NewWriter(w, time.Now())
		if err != nil {
			return err
		}
		for _, part := range []func(context.Context, pgx.Tx, *dump.Writer) error{
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

func dumpNamespaces(ctx context.Context, tx pgx.Tx, out *dump.Writer) error {
	return each(ctx, tx, func(rows pgx.Rows) error {
		var n dump.Namespace
		if err := rows.Scan(&n.Name, &n.Last, &n.Nodes, &n.Pruned); err != nil {
			return err
		}
		return out.Write(dump.Line{Namespace: &n})
	}, "SELECT name, last, nodes, pruned FROM headgate_namespaces ORDER BY name")
}

func dumpObjects(ctx context.Context, tx pgx.Tx, out *dump.Writer) error {
	return each(ctx, tx, func(rows pgx.Rows) error {
		var o dump.Object
		var body string
		if err := rows.Scan(&o.Namespace, &o.Kind, &o.ID, &o.Revision, &o.Created, &o.Updated, &o.By, &body); err != nil {
			return err
		}
		o.Body = json.RawMessage(body)
		return out.Write(dump.Line{Object: &o})
	}, "SELECT "+objectColumns+" FROM headgate_objects ORDER BY kind, namespace, id")
}

func dumpChanges(ctx context.Context, tx pgx.Tx, out *dump.Writer) error {
	written := int64(0)
	return each(ctx, tx, func(rows pgx.Rows) error {
		var c dump.Change
		var op dump.Op
		var was dump.Was
		var body, before *string
		err := rows.Scan(&c.Revision, &c.Namespace, &c.Time, &c.Actor, &c.From, &c.Action, &c.Note,
			&op.Kind, &op.ID, &body, &was.Revision, &was.Created, &was.Updated, &was.By, &before)
		if err != nil {
			return err
		}
		if c.Revision != written {
			if err := out.Write(dump.Line{Change: &c}); err != nil {
				return err
			}
			written = c.Revision
		}
		op.Body, was.Body = bytesOf(body), bytesOf(before)
		if was.Revision != 0 {
			op.Was = &was
		}
		return out.Write(dump.Line{Op: &op})
	}, `SELECT c.revision, c.namespace, c.time, c.actor, c.address, c.action, c.note,
			p.kind, p.id, p.body, p.was_revision, p.was_created, p.was_updated, p.was_actor, p.was_body
		FROM headgate_changes c JOIN headgate_ops p USING (revision) ORDER BY c.revision, p.place`)
}

func dumpStates(ctx context.Context, tx pgx.Tx, out *dump.Writer) error {
	return each(ctx, tx, func(rows pgx.Rows) error {
		var s control.State
		s, err := state(rows)
		if err != nil {
			return err
		}
		return out.Write(dump.Line{State: &dump.State{
			Bucket: s.Bucket, ID: s.ID, Expires: s.Expires.UnixMicro(),
			Body: s.Body,
		}})
	}, "SELECT bucket, id, expires, body FROM headgate_states WHERE expires > "+sqlNow+" ORDER BY bucket, id")
}

// Restore replaces everything with a backup, completely or not at all.
func (db *DB) Restore(ctx context.Context, r io.Reader, over int64) error {
	in, err := dump.NewReader(r)
	if err != nil {
		return err
	}
	err = db.change(ctx, "restore", streamTimeout, func(ctx context.Context, tx pgx.Tx, last int64) error {
		if over != control.Any && over != last {
			return fmt.Errorf("restore %s: %w: it is at revision %d", db.name, control.ErrNotEmpty, last)
		}
		// DELETE instead of TRUNCATE, so that concurrent readers keep their snapshot.
		for _, table := range []string{"objects", "changes", "ops", "states"} {
			if _, err := tx.Exec(ctx, "DELETE FROM headgate_"+table); err != nil {
				return err
			}
		}
		// The row for all namespaces stays: it is the lock that others wait for.
		if _, err := tx.Exec(ctx, "DELETE FROM headgate_namespaces WHERE name <> ''"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE headgate_namespaces SET last = 0, nodes = 0, pruned = 0"); err != nil {
			return err
		}
		return restore(ctx, tx, in)
	})
	if err == nil {
		db.changes.Notify()
	}
	return err
}

// restoreBatch is the number of lines sent at once.
const restoreBatch = 1000

func restore(ctx context.Context, tx pgx.Tx, in *dump.Reader) error {
	// The backup may be read slowly.
	if _, err := tx.Exec(ctx, "SELECT set_config('idle_in_transaction_session_timeout', '0', true)"); err != nil {
		return err
	}
	var change *dump.Change
	place := 0
	b := &pgx.Batch{}
	for {
		line, err := in.Next()
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return err
		}
		switch {
		case ended:
			b.Queue("SELECT pg_notify($1, '')", channel)
		case line.Namespace != nil:
			n := line.Namespace
			b.Queue(`INSERT INTO headgate_namespaces (name, last, nodes, pruned) VALUES ($1, $2, $3, $4)
				ON CONFLICT (name) DO UPDATE SET last = excluded.last, nodes = excluded.nodes, pruned = excluded.pruned`, n.Name, n.Last, n.Nodes, n.Pruned)
		case line.Object != nil:
			o := line.Object
			b.Queue("INSERT INTO headgate_objects ("+objectColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
				o.Namespace, o.Kind, o.ID, o.Revision, o.Created, o.Updated, o.By, string(o.Body))
		case line.Change != nil:
			change, place = line.Change, 0
			b.Queue("INSERT INTO headgate_changes ("+changeColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7)",
				change.Revision, change.Namespace, change.Time, change.Actor, change.From, change.Action, change.Note)
		case line.Op != nil && change == nil:
			return errors.New("restore: part of a change without a change in front of it")
		case line.Op != nil:
			op, was := line.Op, line.Op.Was
			if was == nil {
				was = &dump.Was{}
			}
			b.Queue(`INSERT INTO headgate_ops (revision, place, namespace, kind, id, body, was_revision, was_created, was_updated, was_actor, was_body)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`, change.Revision, place, change.Namespace, op.Kind, op.ID,
				textOf(op.Body), was.Revision, was.Created, was.Updated, was.By, textOf(was.Body))
			place++
		case line.State != nil:
			b.Queue(putState, line.State.Bucket, line.State.ID, line.State.Expires, string(line.State.Body))
		}
		if b.Len() >= restoreBatch || ended {
			if err := tx.SendBatch(ctx, b).Close(); err != nil || ended {
				return err
			}
			b = &pgx.Batch{}
		}
	}
}
