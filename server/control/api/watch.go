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

// defaultKeepAlive is the interval at which a stream sends a comment and checks the caller's token again.
const defaultKeepAlive = 15 * time.Second

// watch serves GET /v1/watch with a stream of the namespace's revisions.
func (s *Server) watch(c *call.Call) error {
	known := int64(-1) // the last revision that the caller has received
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
	stream := c.StartStream()
	if current == known {
		err = stream.Write(": at " + strconv.FormatInt(current, 10) + "\n\n")
	} else {
		err = sendRevision(c, stream, current)
	}
	if err != nil {
		return nil // the caller has disconnected
	}
	s.sendRevisions(c, stream, w, current)
	return nil
}

// sendRevisions sends revisions until the caller disconnects, its token becomes invalid, or a restore of the database
// has renumbered the revisions. In the last case, the caller connects again and fetches the current content.
func (s *Server) sendRevisions(c *call.Call, stream *call.Stream, w *feed.Watcher, known int64) {
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
			if renumbered || latest != known && sendRevision(c, stream, latest) != nil {
				return
			}
			known = latest
		case <-keepAlive.C:
			if !s.isTokenValid(c) || stream.Write(": alive\n\n") != nil {
				return
			}
		}
	}
}

func sendRevision(c *call.Call, stream *call.Stream, n int64) error {
	event := fmt.Sprintf("id: %d\nevent: revision\ndata: {\"namespace\":%q,\"revision\":%d}\n\n", n, c.Namespace, n)
	return stream.Write(event)
}

// isTokenValid reports whether the caller's token is still valid. It returns true if the database is unreachable.
func (s *Server) isTokenValid(c *call.Call) bool {
	caller, err := s.authenticate(c)
	if err != nil {
		return problemOfRequest(err) == nil // errors of the database say nothing about the token
	}
	return caller.Role == c.Caller.Role && caller.Covers(c.Namespace)
}
