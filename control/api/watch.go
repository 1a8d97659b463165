package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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

// A watcher is told the revision of one namespace.
type watcher struct {
	revision atomic.Int64  // the latest
	news     chan struct{} // there is a later one than was told
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
		_, revision, err := h.server.config.DB.Revision(asking, name)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				h.server.config.Logger.Warn("rules service: the revision of a namespace is not known", "namespace", name, "error", err.Error())
				h.again(ctx)
			}
			continue
		}
		h.tell(name, revision)
	}
}

// again looks once more in a second: a revision that was not told must not be missed.
func (h *hub) again(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
		h.poke()
	}
}

func (h *hub) tell(namespace string, revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[namespace] {
		if w.revision.Swap(revision) != revision {
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
	w.revision.Store(-1)
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

// Watchers returns how many watch.
func (s *Server) Watchers() int {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.count
}

// How a stream is kept.
const (
	watchComment = 15 * time.Second // how often it is shown to be alive, and the token looked at again
	watchWrite   = 10 * time.Second // how long a watcher may take to take what he is told
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
	_, present, err := s.config.DB.Revision(c.r.Context(), c.namespace)
	if err != nil {
		return err
	}
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
	if w.revision.CompareAndSwap(-1, present); err != nil {
		return nil // he has gone, and there is nobody to tell
	}
	s.follow(c, w, st, known)
	return nil
}

// follow tells a watcher of revisions until he goes, or may no longer know.
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
			if now := w.revision.Load(); now != known {
				if st.revision(now) != nil {
					return
				}
				known = now
			}
		case <-alive.C:
			if !s.still(c) || st.write(": alive\n\n") != nil {
				return
			}
		}
	}
}

// still tells whether the caller's token is as good as it was. A database that is away is no reason to send him off.
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
	// A watcher that takes nothing is let go: he will come back and be told the latest.
	_ = st.control.SetWriteDeadline(time.Now().Add(watchWrite)) // servers that know no deadlines have none
	if _, err := strings.NewReader(text).WriteTo(st.call.w); err != nil {
		return err
	}
	return st.control.Flush()
}
