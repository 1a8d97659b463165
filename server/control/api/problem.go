package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/edit"
	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/nodes"
	"github.com/headgate/headgate/server/control/token"
)

// problemOf returns the problem details of an error. internal reports whether the error must be logged.
func problemOf(err error) (p *problem.Error, internal bool) {
	if p := problemOfRequest(err); p != nil {
		return p, false
	}
	return problemOfDatabase(err)
}

// problemOfRequest returns the problem of an error that the caller can fix, else nil.
func problemOfRequest(err error) *problem.Error {
	var (
		input      *headgate.InputError
		notFound   *edit.NotFoundError
		exists     *edit.ExistsError
		suspended  *edit.SuspendedError
		stale      *edit.StaleError
		conflict   *control.Conflict
		throttled  *token.ThrottledError
		fullNodes  *nodes.FullError
		fullImport *edit.FullError
	)
	if p := call.InvalidContent(err); p != nil {
		return p
	}
	switch {
	case errors.As(err, &input):
		p := problem.New(http.StatusUnprocessableEntity, "%s", input.Error())
		p.Fields = []problem.Field{{Path: input.Field, Value: input.Value, Want: input.Want}}
		return p
	case errors.As(err, &notFound):
		return problem.New(http.StatusNotFound, "%v", err)
	case errors.As(err, &exists):
		p := problem.New(http.StatusConflict, "%v", err)
		p.Current, p.Diff = edit.NewResource(exists.Object), &exists.Diff
		return p
	case errors.As(err, &suspended):
		return problem.New(http.StatusConflict, "%v", err)
	case errors.As(err, &stale):
		p := problem.New(http.StatusPreconditionFailed, "%v", err)
		p.Diff = stale.Diff
		if stale.Object != nil {
			p.Current = edit.NewResource(stale.Object)
		} else if stale.Diff != nil { // the condition was for the revision of a namespace
			p.Current = call.RevisionOnly{Revision: stale.Namespace}
		}
		return p
	case errors.As(err, &conflict):
		return problem.New(http.StatusPreconditionFailed, "Somebody else has changed it: %s.", conflict.Error())
	case errors.Is(err, edit.ErrTooManyChanges):
		return problem.New(http.StatusUnprocessableEntity, "%v.", err)
	case errors.As(err, &fullImport):
		return problem.New(http.StatusRequestEntityTooLarge, "More than %d clients in an import with ?prune: "+
			"import them without it, and delete the others one by one.", fullImport.Max)
	case errors.As(err, &fullNodes):
		return problem.New(http.StatusServiceUnavailable, "There are %d nodes, which is the maximum.", fullNodes.Max)
	case errors.Is(err, token.ErrInvalid):
		return problem.New(http.StatusUnauthorized,
			"The token is invalid: it does not exist, was revoked, or has expired.")
	case errors.As(err, &throttled):
		p := problem.New(http.StatusTooManyRequests, "Too many logins from this address have failed.")
		p.RetryAfter = throttled.RetryAfter
		return p
	}
	return nil
}

// problemOfDatabase returns the problem of any other error.
func problemOfDatabase(err error) (p *problem.Error, internal bool) {
	switch {
	case errors.Is(err, control.ErrNotFound):
		return problem.New(http.StatusNotFound, "The object does not exist."), false
	case errors.Is(err, control.ErrInvalid):
		return problem.New(http.StatusUnprocessableEntity, "%v.", err), false
	case errors.Is(err, control.ErrPruned):
		return problem.New(http.StatusGone, "The log does not reach back that far."), false
	case errors.Is(err, control.ErrNotEmpty):
		return problem.New(http.StatusConflict, "The database is not empty. To replace its content by the backup, "+
			"use ?replace or headgate restore --replace. To fill a new database, use headgate restore --db."), false
	case errors.Is(err, control.ErrFull):
		return problem.New(http.StatusInsufficientStorage, "The database is full: nothing was changed. "+
			"The rules in force do not change. To fix it, %s.", control.Remedy(err)), true
	case errors.Is(err, control.ErrFileGone):
		return problem.New(http.StatusServiceUnavailable, "The file of the database was removed or replaced while it was "+
			"open: nothing was changed. The rules in force do not change. To fix it, %s.", control.Remedy(err)), false
	case errors.Is(err, control.ErrUnwritable): // not internal, like ErrFileGone, because control.Monitor logs it
		return problem.New(http.StatusServiceUnavailable, "The database cannot be written: nothing was changed. "+
			"The rules in force do not change. To fix it, %s; the log has details.", control.Remedy(err)), false
	case errors.Is(err, context.Canceled):
		return problem.New(problem.StatusClientClosed, "The caller has disconnected."), false
	default:
		p := problem.New(http.StatusServiceUnavailable, "The database call failed; the log has the reason.")
		p.RetryAfter = time.Second
		return p, true
	}
}
