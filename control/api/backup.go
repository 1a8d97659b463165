package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/internal/dump"
)

// backupTime is how long a backup may take to be sent or taken.
const backupTime = time.Hour

// backup answers GET /v1/backup with everything that is kept.
func (s *Server) backup(c *call) error {
	c.give(bodyTime, backupTime)
	h := c.w.Header()
	h.Set("Content-Type", control.SnapshotType)
	h.Set("Content-Disposition", `attachment; filename="headgate-backup.ndjson"`)
	w := &counter{ResponseWriter: c.w}
	err := s.config.DB.Dump(c.r.Context(), w)
	if err != nil && w.written > 0 {
		s.config.Logger.Error("rules service: a backup was cut off", "err", err.Error())
		// Who takes it must not think that it is whole.
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		h.Del("Content-Disposition")
	}
	return err
}

// A counter knows whether anything was written.
type counter struct {
	http.ResponseWriter
	written int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.written += int64(n)
	return n, err
}

// A restored is the answer to a restore.
type restored struct {
	Revision int64 `json:"revision"`
	// Token is one that may do everything, made because none of those in the backup may. It is shown this once.
	Token string `json:"token,omitempty"`
}

// restore answers POST /v1/restore.
func (s *Server) restore(c *call) error {
	replace, err := c.flag("replace")
	if err != nil {
		return err
	}
	c.give(backupTime, backupTime)
	ctx := c.r.Context()
	// All of it is here before any of it is put in the database, which nobody else can write to meanwhile.
	from, err := os.CreateTemp("", "headgate-restore-")
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() {
		_ = from.Close()
		_ = os.Remove(from.Name()) // it is of no use any more
	}()
	if _, err := io.Copy(from, c.r.Body); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("restore: %w: %w", control.ErrFull, err)
		}
		return fail(http.StatusBadRequest, "The backup did not arrive: %v.", err)
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	over := control.Any
	if !replace {
		if over, err = s.untouched(ctx); err != nil {
			return err
		}
	}
	was, _, err := s.config.DB.Revision(ctx, "")
	if err != nil {
		return err
	}
	made := restored{}
	// The audit has it with what is restored, or there is neither.
	recorded, err := dump.Record(from, dump.Event{
		Namespace: systemNamespace, ID: eventRestore, Actor: c.who.ID, From: c.from, Note: c.query.Get("note"), Time: s.config.Now(),
		Body: func(last int64) ([]byte, error) {
			made.Revision = last
			return json.Marshal(restoreEvent{Revision: last, Replaced: was})
		},
	})
	if err == nil {
		err = s.config.DB.Restore(ctx, recorded, over)
	}
	if err != nil {
		if errors.Is(err, control.ErrNotEmpty) || errors.Is(err, control.ErrFull) ||
			errors.Is(err, control.ErrUnwritable) || ctx.Err() != nil {
			return err
		}
		return fail(http.StatusUnprocessableEntity, "It could not be restored: %v.", err)
	}
	s.config.Logger.Warn("rules service: everything was replaced by a backup", "by", c.who.ID, "from", c.from, "revision", made.Revision)
	s.beats.tellAgain()
	s.hooks.forgetAll()
	if made.Token, err = s.ensureAdmin(ctx); err != nil {
		return err
	}
	s.hub.poke()
	return c.answer(http.StatusOK, made)
}

// untouched returns the revision of a database to which nobody has done anything: all that is in it came by itself with the
// first start, a token and the rules of a demonstration. It is 0 if something else is in it.
func (s *Server) untouched(ctx context.Context) (int64, error) {
	const most = 8
	last, _, err := s.config.DB.Revision(ctx, "")
	if err != nil || last > most {
		return control.Absent, err
	}
	changes, err := s.config.DB.Log(ctx, control.LogQuery{Limit: most})
	if err != nil || int64(len(changes)) != last || slices.ContainsFunc(changes, func(c control.Change) bool { return c.Actor != systemActor }) {
		return control.Absent, err
	}
	return last, nil
}
