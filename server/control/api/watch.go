package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control/feed"
	"github.com/headgate/headgate/server/control/internal/problem"
)

const (
	// defaultKeepAlive is the interval in which comments are sent, and the caller's token is checked again.
	defaultKeepAlive = 15 * time.Second
	// eventTimeout is the time that a watcher has to read an event.
	eventTimeout = 10 * time.Second
)

// Watchers returns the number of watchers.
func (s *Server) Watchers() int { return s.hub.Watchers() }

// watch serves GET /v1/watch with a stream of the namespace's revisions.
func (s *Server) watch(c *call) error {
	known := int64(-1)
	if text := c.r.Header.Get("Last-Event-ID"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return problem.New(http.StatusBadRequest,
				"Last-Event-ID %s: want the id of an event of this stream.", rules.Quote(text))
		}
		known = n
	}
	w, current, err := s.hub.Watch(c.r.Context(), c.namespace)
	if errors.Is(err, feed.ErrTooManyWatchers) {
		p := problem.New(http.StatusServiceUnavailable, "There are %d watchers, which is the maximum.", s.config.MaxWatchers)
		p.RetryAfter = 5 * time.Second
		return p
	} else if err != nil {
		return err
	}
	defer w.Close()
	st := startStream(c)
	if current == known {
		err = st.write(": at " + strconv.FormatInt(current, 10) + "\n\n")
	} else {
		err = st.sendRevision(current)
	}
	if err != nil {
		return nil // the caller has disconnected
	}
	s.sendRevisions(st, w, current)
	return nil
}

// sendRevisions sends revisions until the caller disconnects, its token becomes invalid, or revisions are renumbered.
// Then the caller connects again and fetches the current content.
func (s *Server) sendRevisions(st *stream, w *feed.Watcher, known int64) {
	keepAlive := time.NewTicker(s.keepAlive)
	defer keepAlive.Stop()
	for {
		select {
		case <-st.call.r.Context().Done():
			return
		case <-s.ended.Done():
			return
		case <-w.Updates():
			latest, renumbered := w.Latest()
			if renumbered || latest != known && st.sendRevision(latest) != nil {
				return
			}
			known = latest
		case <-keepAlive.C:
			if !s.stillValid(st.call) || st.write(": alive\n\n") != nil {
				return
			}
		}
	}
}

// stillValid reports whether the caller's token is still valid. It is true if the database is unreachable.
func (s *Server) stillValid(c *call) bool {
	caller, err := s.authenticate(c)
	if err != nil {
		return problemOfRequest(err) == nil
	}
	return caller.Role == c.caller.Role && caller.Covers(c.namespace)
}

// A stream is a response of server-sent events.
type stream struct {
	call    *call
	control *http.ResponseController
}

// startStream begins a response of server-sent events.
func startStream(c *call) *stream {
	st := &stream{call: c, control: http.NewResponseController(c.w)}
	_ = st.control.SetReadDeadline(time.Time{}) // nothing more is read; fails for connections without deadlines
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("X-Accel-Buffering", "no") // proxies must not delay events
	c.w.WriteHeader(http.StatusOK)
	return st
}

func (st *stream) sendRevision(n int64) error {
	return st.write(fmt.Sprintf("id: %d\nevent: revision\ndata: {\"namespace\":%q,\"revision\":%d}\n\n",
		n, st.call.namespace, n))
}

// write writes a text. A watcher that does not read in time is disconnected: it connects again and gets the latest
// revision.
func (st *stream) write(text string) error {
	_ = st.control.SetWriteDeadline(time.Now().Add(eventTimeout)) // fails for connections without deadlines
	if _, err := strings.NewReader(text).WriteTo(st.call.w); err != nil {
		return err
	}
	return st.control.Flush()
}
