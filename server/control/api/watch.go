package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control/api/internal/call"
	"github.com/headgate/headgate/server/control/feed"
	"github.com/headgate/headgate/server/control/internal/problem"
)

// defaultKeepAlive is the interval in which comments are sent, and the caller's token is checked again.
const defaultKeepAlive = 15 * time.Second

// watch serves GET /v1/watch with a stream of the namespace's revisions.
func (s *Server) watch(c *call.Call) error {
	known := int64(-1)
	if text := c.R.Header.Get("Last-Event-ID"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return problem.New(http.StatusBadRequest,
				"Last-Event-ID %s: want the id of an event of this stream.", rules.Quote(text))
		}
		known = n
	}
	w, current, err := s.hub.Watch(c.R.Context(), c.Namespace)
	if errors.Is(err, feed.ErrTooManyWatchers) {
		p := problem.New(http.StatusServiceUnavailable, "There are %d watchers, which is the maximum.", s.config.MaxWatchers)
		p.RetryAfter = 5 * time.Second
		return p
	} else if err != nil {
		return err
	}
	defer w.Close()
	st := c.StartStream()
	if current == known {
		err = st.Write(": at " + strconv.FormatInt(current, 10) + "\n\n")
	} else {
		err = sendRevision(c, st, current)
	}
	if err != nil {
		return nil // the caller has disconnected
	}
	s.sendRevisions(c, st, w, current)
	return nil
}

// sendRevisions sends revisions until the caller disconnects, its token becomes invalid, or revisions are renumbered.
// Then the caller connects again and fetches the current content.
func (s *Server) sendRevisions(c *call.Call, st *call.Stream, w *feed.Watcher, known int64) {
	keepAlive := time.NewTicker(s.keepAlive)
	defer keepAlive.Stop()
	for {
		select {
		case <-c.R.Context().Done():
			return
		case <-s.ended.Done():
			return
		case <-w.Updates():
			latest, renumbered := w.Latest()
			if renumbered || latest != known && sendRevision(c, st, latest) != nil {
				return
			}
			known = latest
		case <-keepAlive.C:
			if !s.stillValid(c) || st.Write(": alive\n\n") != nil {
				return
			}
		}
	}
}

func sendRevision(c *call.Call, st *call.Stream, n int64) error {
	return st.Write(fmt.Sprintf("id: %d\nevent: revision\ndata: {\"namespace\":%q,\"revision\":%d}\n\n", n, c.Namespace, n))
}

// stillValid reports whether the caller's token is still valid. It is true if the database is unreachable.
func (s *Server) stillValid(c *call.Call) bool {
	caller, err := s.authenticate(c)
	if err != nil {
		return problemOfRequest(err) == nil // other errors say nothing about the token
	}
	return caller.Role == c.Caller.Role && caller.Covers(c.Namespace)
}
