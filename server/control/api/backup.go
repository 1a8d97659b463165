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

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/internal/dump"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// backupTime is the time that callers have to send or receive a backup.
const backupTime = time.Hour

// backup serves GET /v1/backup.
func (s *Server) backup(c *call.Call) error {
	c.SetDeadlines(call.BodyTime, backupTime)
	h := c.W.Header()
	h.Set("Content-Type", control.SnapshotType)
	h.Set("Content-Disposition", `attachment; filename="headgate-backup.ndjson"`)
	w := &countingWriter{ResponseWriter: c.W}
	err := s.config.DB.Dump(c.R.Context(), w)
	if err != nil && w.written > 0 {
		s.config.Logger.Error("rules service: a backup failed, closing the connection", "err", err.Error())
		panic(http.ErrAbortHandler) // a broken connection tells the caller that the backup is incomplete
	}
	if err != nil {
		h.Del("Content-Disposition")
	}
	return err
}

// A countingWriter counts the written bytes.
type countingWriter struct {
	http.ResponseWriter
	written int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	return n, err
}

// A restoreResponse is the response to a restore.
type restoreResponse struct {
	Revision int64 `json:"revision"`
	// Token is the secret of a new token with all rights, created if the backup has none. It is not shown again.
	Token string `json:"token,omitempty"`
}

// restore serves POST /v1/restore.
func (s *Server) restore(c *call.Call) error {
	replace, err := c.Flag("replace")
	if err != nil {
		return err
	}
	c.SetDeadlines(backupTime, backupTime)
	// Receive the whole backup first, because a restore blocks all other writes.
	file, err := receiveBackup(c.R.Body)
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name()) // a temporary file
	}()
	ctx := c.R.Context()
	base := control.AnyRevision // the revision that the database must have
	if !replace {
		if base, err = s.initialRevision(ctx); err != nil {
			return err
		}
	}
	before, _, err := s.config.DB.Revision(ctx, "")
	if err != nil {
		return err
	}
	response := restoreResponse{}
	// Append the event to the backup, so that the event and the content are stored together or not at all.
	data, err := dump.Record(file, dump.Event{
		Namespace: control.SystemNamespace, ID: eventRestore, Actor: c.Caller.ID, From: c.From, Note: c.Query.Get("note"),
		Time: s.config.Now(),
		Body: func(last int64) ([]byte, error) {
			response.Revision = last
			return json.Marshal(restoreEvent{Revision: last, Replaced: before})
		},
	})
	if err == nil {
		err = s.config.DB.Restore(ctx, data, base)
	}
	if err != nil {
		if errors.Is(err, control.ErrNotEmpty) || errors.Is(err, control.ErrFull) ||
			errors.Is(err, control.ErrUnwritable) || ctx.Err() != nil {
			return err
		}
		return problem.New(http.StatusUnprocessableEntity, "The backup could not be restored: %v.", err)
	}
	s.config.Logger.Warn("rules service: the database was restored from a backup",
		"by", c.Caller.ID, "from", c.From, "revision", response.Revision)
	s.nodes.Reset()
	s.webhooks.Reset()
	if response.Token, err = s.ensureAdmin(ctx); err != nil {
		return err
	}
	s.hub.Notify()
	return c.Respond(http.StatusOK, response)
}

// receiveBackup writes a body to a temporary file, and returns the file, positioned at its beginning.
func receiveBackup(body io.Reader) (*os.File, error) {
	file, err := os.CreateTemp("", "headgate-restore-")
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if _, err = io.Copy(file, body); errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("restore: %w: %w", control.ErrFull, err)
	} else if err != nil {
		err = problem.New(http.StatusBadRequest, "The backup could not be received: %v.", err)
	} else if _, err = file.Seek(0, io.SeekStart); err != nil {
		err = fmt.Errorf("restore: %w", err)
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, err
	}
	return file, nil
}

// initialRevision returns the current revision of a database that contains only objects from the first start: a token,
// and the rules of the demo. For any other database, it returns control.Absent.
func (s *Server) initialRevision(ctx context.Context) (int64, error) {
	const maxChanges = 8 // more than the first start commits
	last, _, err := s.config.DB.Revision(ctx, "")
	if err != nil || last > maxChanges {
		return control.Absent, err
	}
	changes, err := s.config.DB.Log(ctx, control.LogQuery{Limit: maxChanges})
	byCaller := func(c control.Change) bool { return c.Actor != control.SystemActor }
	if err != nil || int64(len(changes)) != last || slices.ContainsFunc(changes, byCaller) {
		return control.Absent, err
	}
	return last, nil
}
