package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/rules"
)

// A hub tells watchers of revisions. However many they are, the database is watched once.
type hub struct {
	server *Server
	pokes  chan struct{}

	mu       sync.Mutex
	watchers map[string]map[*watcher]struct{} // by namespace
	count    int
}

// A watcher receives the revisions of one namespace. The hub's mutex guards mark, heard and lost.
type watcher struct {
	mark control.Mark // the latest revision
	// lost reports that revisions were renumbered: the database was restored, or has lost changes. The stream is closed, so that
	// the client reconnects and fetches the current state.
	heard, lost bool
	news        chan struct{} // signals a revision that was not sent yet
}

// hear takes what the namespace is at, and reports whether that is news.
func (w *watcher) hear(mark control.Mark) bool {
	was := w.mark
	if w.heard && was == mark {
		return false
	}
	if w.heard && was.Revision == mark.Revision {
		w.lost = w.lost || was.At != 0 && mark.At != 0 // a log that was pruned does not tell
	}
	w.heard, w.mark = true, mark
	return true
}

func newHub(s *Server) *hub {
	return &hub{server: s, pokes: make(chan struct{}, 1), watchers: make(map[string]map[*watcher]struct{})}
}

// poke says that something was changed in this process, before the database does.
func (h *hub) poke() {
	select {
	case h.pokes <- struct{}{}:
	default:
	}
}

// run tells watchers until the server is closed.
func (h *hub) run() {
	ctx := h.server.ended
	heard := make(chan struct{}, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		for range h.server.config.DB.Watch(ctx) {
			select {
			case heard <- struct{}{}:
			default:
			}
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.pokes:
		case <-heard:
		}
		h.tellAll(ctx)
	}
}

// namespaces returns those that somebody watches.
func (h *hub) namespaces() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, len(h.watchers))
	for name := range h.watchers {
		names = append(names, name)
	}
	return names
}

func (h *hub) tellAll(ctx context.Context) {
	for _, name := range h.namespaces() {
		asking, cancel := context.WithTimeout(ctx, callTime)
		mark, err := h.server.present(asking, name)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				h.server.config.Logger.Warn("rules service: the revision of a namespace is not known", "namespace", name, "err", err.Error())
				h.again(ctx)
			}
			continue
		}
		h.tell(name, mark)
	}
}

// present returns what a namespace is at.
func (s *Server) present(ctx context.Context, namespace string) (control.Mark, error) {
	_, revision, err := s.config.DB.Revision(ctx, namespace)
	if err != nil {
		return control.Mark{}, err
	}
	return markOf(ctx, s.config.DB, revision)
}

// again looks once more in a second: a revision that was not told must not be missed.
func (h *hub) again(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
		h.poke()
	}
}

func (h *hub) tell(namespace string, mark control.Mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[namespace] {
		if w.hear(mark) {
			select {
			case w.news <- struct{}{}:
			default: // it has not yet looked at the one before
			}
		}
	}
}

// errTooMany is for watchers beyond the most.
var errTooMany = errors.New("too many watchers")

func (h *hub) add(namespace string) (*watcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count >= h.server.config.MaxWatchers {
		return nil, errTooMany
	}
	h.count++
	w := &watcher{news: make(chan struct{}, 1)}
	if h.watchers[namespace] == nil {
		h.watchers[namespace] = make(map[*watcher]struct{})
	}
	h.watchers[namespace][w] = struct{}{}
	return w, nil
}

func (h *hub) remove(namespace string, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count--
	if delete(h.watchers[namespace], w); len(h.watchers[namespace]) == 0 {
		delete(h.watchers, namespace)
	}
}

// begin sets a watcher's first revision, unless it has received one since it was added.
func (h *hub) begin(w *watcher, mark control.Mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.heard {
		w.heard, w.mark = true, mark
	}
}

// heard returns the latest revision for a watcher, and whether it is lost.
func (h *hub) heard(w *watcher) (revision int64, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.mark.Revision, w.lost
}

// Watchers returns how many watch.
func (s *Server) Watchers() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.count
}

// How a stream is kept.
const (
	watchComment = 15 * time.Second // how often it is shown to be alive, and the token looked at again
	watchWrite   = 10 * time.Second // time for a watcher to read an event
)

// watch answers GET /v1/watch with a stream of the namespace's revisions.
func (s *Server) watch(c *call) error {
	known := int64(-1)
	if text := c.r.Header.Get("Last-Event-ID"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return fail(http.StatusBadRequest, "Last-Event-ID %s: want the id of an event of this stream.", rules.Quote(text))
		}
		known = n
	}
	w, err := s.hub.add(c.namespace)
	if err != nil {
		p := fail(http.StatusServiceUnavailable, "There are %d watchers, which is the most.", s.config.MaxWatchers)
		p.retryAfter = 5 * time.Second
		return p
	}
	defer s.hub.remove(c.namespace, w)
	// After it was added, so that none is missed.
	mark, err := s.present(c.r.Context(), c.namespace)
	if err != nil {
		return err
	}
	s.hub.begin(w, mark)
	present := mark.Revision
	st := &stream{call: c, control: http.NewResponseController(c.w)}
	_ = st.control.SetReadDeadline(time.Time{}) // nothing more is read; servers that know no deadlines have none
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("X-Accel-Buffering", "no") // proxies are to pass on what comes when it comes
	c.w.WriteHeader(http.StatusOK)
	if present != known {
		err = st.revision(present)
		known = present
	} else {
		err = st.write(": at " + strconv.FormatInt(present, 10) + "\n\n")
	}
	if err != nil {
		return nil // the client has disconnected
	}
	s.follow(c, w, st, known)
	return nil
}

// follow sends revisions to a watcher until it disconnects, or its token is no longer valid.
func (s *Server) follow(c *call, w *watcher, st *stream, known int64) {
	alive := time.NewTicker(s.watchComment)
	defer alive.Stop()
	for {
		select {
		case <-c.r.Context().Done():
			return
		case <-s.ended.Done():
			return
		case <-w.news:
			now, lost := s.hub.heard(w)
			if lost || now != known && st.revision(now) != nil {
				return
			}
			known = now
		case <-alive.C:
			if !s.still(c) || st.write(": alive\n\n") != nil {
				return
			}
		}
	}
}

// still reports whether the caller's token is still valid. An unreachable database does not end the stream.
func (s *Server) still(c *call) bool {
	who, err := s.authenticate(c)
	if err != nil {
		var refused *problem
		return !errors.As(err, &refused)
	}
	return who.Role == c.who.Role && who.covers(c.namespace)
}

// A stream is what a watcher reads.
type stream struct {
	call    *call
	control *http.ResponseController
}

func (st *stream) revision(n int64) error {
	return st.write(fmt.Sprintf("id: %d\nevent: revision\ndata: {\"namespace\":%q,\"revision\":%d}\n\n", n, st.call.namespace, n))
}

func (st *stream) write(text string) error {
	// A watcher that does not read is disconnected: it reconnects and gets the latest revision.
	_ = st.control.SetWriteDeadline(time.Now().Add(watchWrite)) // servers that know no deadlines have none
	if _, err := strings.NewReader(text).WriteTo(st.call.w); err != nil {
		return err
	}
	return st.control.Flush()
}
