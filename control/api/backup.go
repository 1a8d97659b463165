package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/control"
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
		s.config.Logger.Error("rules service: a backup was cut off", "error", err.Error())
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

// restore answers POST /v1/restore.
func (s *Server) restore(c *call) error {
	c.give(backupTime, backupTime)
	if err := s.config.DB.Restore(c.r.Context(), c.r.Body); err != nil {
		if errors.Is(err, control.ErrNotEmpty) || errors.Is(err, control.ErrFull) || c.r.Context().Err() != nil {
			return err
		}
		return fail(http.StatusUnprocessableEntity, "It could not be restored: %v.", err)
	}
	last, _, err := s.config.DB.Revision(c.r.Context(), "")
	if err != nil {
		return err
	}
	s.hub.poke()
	return c.answer(http.StatusOK, revised{last})
}
