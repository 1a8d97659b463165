package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/headgate/headgate/server/control"
)

// Commit commits a change.
func (db *DB) Commit(ctx context.Context, c *control.Change) error {
	if err := c.Validate(); err != nil {
		return err
	}
	made := *c
	made.Ops = append([]control.Op(nil), c.Ops...)
	err := db.change(ctx, "commit to", func(tx *sql.Tx) error { return commit(ctx, tx, &made) })
	if err != nil {
		return err
	}
	*c = made
	db.changes.Notify()
	return nil
}

// commit applies a change within a transaction, and sets its results.
func commit(ctx context.Context, tx *sql.Tx, c *control.Change) error {
	var have int64
	err := tx.QueryRowContext(ctx, "SELECT last FROM namespaces WHERE name = ?", c.Namespace).Scan(&have)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if c.Base != control.Any && c.Base != have {
		return &control.Conflict{Namespace: c.Namespace, Want: c.Base, Have: have}
	}
	if err := tx.QueryRowContext(ctx, "SELECT last + 1 FROM namespaces WHERE name = ''").Scan(&c.Revision); err != nil {
		return err
	}
	c.Time = at(micros(time.Now()))

	forNodes := false
	s := statements{ctx: ctx, tx: tx}
	for i := range c.Ops {
		if err := s.apply(c, i); err != nil {
			return errors.Join(err, s.close())
		}
		forNodes = forNodes || c.Ops[i].Kind.ForNodes()
	}
	if err := s.close(); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)",
		c.Revision, c.Namespace, micros(c.Time), c.Actor, c.From, c.Action, c.Note)
	if err != nil {
		return err
	}
	for _, name := range []string{"", c.Namespace} {
		_, err := tx.ExecContext(ctx, `INSERT INTO namespaces VALUES (?1, ?2, iif(?3, ?2, 0), 0)
			ON CONFLICT (name) DO UPDATE SET last = ?2, nodes = iif(?3, ?2, nodes)`, name, c.Revision, forNodes)
		if err != nil {
			return err
		}
	}
	return nil
}

// statements are prepared statements for all objects of a change.
type statements struct {
	ctx  context.Context
	tx   *sql.Tx
	made map[string]*sql.Stmt
}

func (s *statements) get(text string) (*sql.Stmt, error) {
	if stmt := s.made[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.tx.PrepareContext(s.ctx, text)
	if err != nil {
		return nil, err
	}
	if s.made == nil {
		s.made = map[string]*sql.Stmt{}
	}
	s.made[text] = stmt
	return stmt, nil
}

func (s *statements) exec(text string, args ...any) error {
	stmt, err := s.get(text) //nolint:sqlclosecheck // close closes all of them
	if err != nil {
		return err
	}
	_, err = stmt.ExecContext(s.ctx, args...)
	return err
}

func (s *statements) close() error {
	var failed []error
	for _, stmt := range s.made {
		failed = append(failed, stmt.Close())
	}
	return errors.Join(failed...)
}

// apply applies the operation with an index.
func (s *statements) apply(c *control.Change, index int) error {
	op := &c.Ops[index]
	find, err := s.get("SELECT revision, created, updated, actor, body FROM objects WHERE kind = ? AND namespace = ? AND id = ?") //nolint:sqlclosecheck // close closes all of them
	if err != nil {
		return err
	}
	var was struct {
		revision, created, updated int64
		actor                      string
		body                       []byte
	}
	err = find.QueryRowContext(s.ctx, op.Kind, c.Namespace, op.ID).Scan(&was.revision, &was.created, &was.updated,
		&was.actor, &was.body)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if op.Base != control.Any && op.Base != was.revision || op.Body == nil && was.revision == control.Absent {
		return &control.Conflict{Namespace: c.Namespace, Kind: op.Kind, ID: op.ID, Want: op.Base, Have: was.revision}
	}
	op.Before = was.body
	err = s.exec("INSERT INTO ops VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", c.Revision, index, c.Namespace, op.Kind,
		op.ID,
		text(op.Body), was.revision, was.created, was.updated, was.actor, text(was.body))
	if err != nil {
		return err
	}
	now := micros(c.Time)
	switch {
	case op.Body == nil:
		return s.exec("DELETE FROM objects WHERE kind = ? AND namespace = ? AND id = ?", op.Kind, c.Namespace, op.ID)
	case was.revision == control.Absent:
		return s.exec("INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			op.Kind, c.Namespace, op.ID, c.Revision, now, now, c.Actor, string(op.Body))
	default:
		return s.exec("UPDATE objects SET revision = ?, updated = ?, actor = ?, body = ? WHERE kind = ? AND namespace = ? AND id = ?",
			c.Revision, now, c.Actor, string(op.Body), op.Kind, c.Namespace, op.ID)
	}
}

// text returns a body as text for SQLite, NULL if there is none.
func text(body []byte) sql.NullString {
	return sql.NullString{String: string(body), Valid: body != nil}
}
