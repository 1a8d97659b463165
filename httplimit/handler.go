package httplimit

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
)

// New returns a middleware that limits requests to the next handler by the engine's rules.
func New(c Config) (func(next http.Handler) http.Handler, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	l := &limiter{Config: c}
	l.pool.New = func() any { return new(requestState) }
	return func(next http.Handler) http.Handler { return &handler{limiter: l, next: next} }, nil
}

// A limiter is shared by the handlers of one middleware.
type limiter struct {
	Config
	pool     sync.Pool // of *requestState
	policies policies
}

// A handler limits requests to another handler.
type handler struct {
	*limiter
	next http.Handler
}

// A requestState is the state of one request. It is reused, so nothing of it may be kept. In between it keeps the last
// request in memory, which is cheaper than clearing it: there are about as many of them as concurrent requests.
type requestState struct {
	who     identity.Attributes
	verdict engine.Verdict
	buf     []byte

	served bool // the next handler has returned, so that its response is complete unless the client has disconnected

	place   *any // where it may be kept for the requests of one connection; nil if there is none
	kept    bool // it is kept there, and does not belong to the pool
	lasting bool // the verdict depends only on the request, rules and counters
}

func (l *limiter) release(x *requestState) {
	if !x.kept {
		x.place = nil
		l.pool.Put(x)
	}
}

// keep keeps the state with its connection if it may help to decide the next request. Most connections are idle at any
// time, so a large state is not kept.
func (x *requestState) keep(lasting bool) {
	x.lasting = lasting && x.place != nil && x.verdict.Repeats()
	if kept := x.lasting || x.kept && x.verdict.Small(); kept != x.kept {
		x.kept = kept
		*x.place = nil
		if kept {
			*x.place = x
		}
	}
}

// KeepsState marks the handler as a StateKeeper.
func (h *handler) KeepsState() {}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, repeats := h.stateOf(w)
	who, ok := h.decide(w, r, x, repeats)
	if !ok {
		return
	}
	v := &x.verdict
	switch v.Action {
	case engine.Reject:
		h.reject(w, x)
		h.release(x)
	case engine.Drop:
		h.release(x)
		drop(w)
	default:
		if who == &x.who { // or the server has seen that Connection names nothing
			r = withoutNominated(r)
		}
		h.serve(w, r, x)
	}
}

// stateOf returns the state for the request, and reports whether it was last used for an equal request on the same
// connection. A proxy has a place to keep it with the connection, which is used once a client has repeated a request.
func (l *limiter) stateOf(w http.ResponseWriter) (x *requestState, repeats bool) {
	var place *any
	if proxy, ok := w.(ProxyWriter); ok {
		place, repeats = proxy.Kept()
	}
	if place != nil && *place != nil {
		if x, ok := (*place).(*requestState); ok {
			repeats = repeats && x.lasting
			x.lasting = false // until that was seen
			return x, repeats
		}
		place = nil // of another middleware
	}
	x = l.pool.Get().(*requestState)
	if repeats {
		x.place = place
	}
	return x, false
}

// decide asks the engine. It returns the client, and false if the response has been sent.
func (h *handler) decide(
	w http.ResponseWriter, r *http.Request, x *requestState, repeats bool,
) (who *identity.Attributes, ok bool) {
	ctx, v := r.Context(), &x.verdict
	if repeats {
		decided, err := h.Engine.DecideAgain(ctx, v)
		if decided && err == nil {
			x.lasting = true
			return nil, true
		}
	}
	who = h.identify(w, r, x)
	if err := who.Malformed(); err != nil {
		badRequest(w, x, err)
		h.release(x)
		return who, false
	}
	if err := h.Engine.Decide(ctx, who, v); err != nil {
		h.undecided(w, r, x, err)
		return who, false
	}
	x.keep(who != &x.who && who.Lasting())
	return who, true
}

// identify returns the client, which a proxy may have identified already.
func (h *handler) identify(w http.ResponseWriter, r *http.Request, x *requestState) *identity.Attributes {
	if proxy, ok := w.(ProxyWriter); ok {
		if who := proxy.Identified(h.Identifier); who != nil {
			return who
		}
	}
	h.Identifier.Read(r, &x.who)
	return &x.who
}

// withoutNominated returns the request without the headers that its Connection names. Rules have not seen them: a
// client could otherwise show the next handler what it hides from rules.
func withoutNominated(r *http.Request) *http.Request {
	switch lines := r.Header["Connection"]; {
	case len(lines) == 0, len(lines) == 1 && (lines[0] == "keep-alive" || lines[0] == "close" || lines[0] == "Upgrade"):
		return r
	}
	header := r.Header.Clone()
	if !identity.RemoveNominated(header) {
		return r
	}
	without := *r
	without.Header = header
	return &without
}

// undecided handles a request that could not be decided: if it was cancelled meanwhile there is nobody to respond to,
// else it is allowed, since a failing limiter should not block requests.
func (h *handler) undecided(w http.ResponseWriter, r *http.Request, x *requestState, err error) {
	if r.Context().Err() != nil {
		gaveUp(w, x, 0)
		h.release(x)
		return
	}
	h.release(x)
	h.OnError(r, fmt.Errorf("decide %s %s: %w", r.Method, r.URL.Path, err))
	h.next.ServeHTTP(w, withoutNominated(r))
}

// serve calls the next handler, when the request may be served.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, x *requestState) {
	v := &x.verdict
	wrapped := h.fieldWriter(w, x)
	v.KeepSlots()
	if v.Action == engine.Delay {
		if err := v.Wait(r.Context()); err != nil {
			gaveUp(w, x, v.Delay)
			h.release(x)
			return
		}
	}
	if !v.Settles() {
		h.release(x)
		h.pass(w, wrapped, r)
		return
	}
	// Once, however the handler ends: it returns, panics, or has hijacked the connection.
	x.served = false
	defer h.settle(w, r, x)
	h.pass(w, wrapped, r)
	x.served = true
}

// pass calls the next handler, with the writer that adds the fields if there is one.
func (h *handler) pass(w http.ResponseWriter, wrapped *writer, r *http.Request) {
	if wrapped == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	h.next.ServeHTTP(wrapped.wrap(), r)
	wrapped.finish()
}

// fieldWriter returns the writer that adds the fields to the response, nil if there are none or the server adds them.
func (h *handler) fieldWriter(w http.ResponseWriter, x *requestState) *writer {
	v := &x.verdict
	lines, room := headerLines(w)
	if v.ReadsResponse() {
		lines = nil
	}
	if lines != nil && h.Fields.isDefault() {
		if known := h.policies.of(v); known != nil { // the common case
			if text, ok := known.appendLines(room, v, h.Now()); ok {
				lines.SetHeaderLines(text, ofXRateLimit)
				return nil
			}
		}
	}
	if h.Fields.NoRateLimit && h.Fields.NoXRateLimit || !anyReported(v) {
		if lines != nil {
			lines.SetHeaderLines(room[:0], nil) // the buffer stays the server's, for later lines
		}
		return nil
	}
	if lines != nil {
		t := fieldText{buf: room, known: &h.policies, lines: true}
		h.Fields.writeAll(&t, v, 0, h.Now())
		var instead []string
		if t.parts[fieldLimit].to > 0 {
			instead = ofXRateLimit
		}
		lines.SetHeaderLines(t.buf, instead)
		return nil
	}
	wrapped := &writer{under: w}
	x.buf = h.Fields.fill(&wrapped.values, v, &h.policies, 0, h.Now(), x.buf[:0])
	return wrapped
}

// settle charges or refunds the cost that the response states, and releases the slots of the request.
func (h *handler) settle(w http.ResponseWriter, r *http.Request, x *requestState) {
	settle := x.verdict.Settle
	var response func(string) string
	if x.verdict.ReadsResponse() {
		header := w.Header()
		response = func(name string) string { return responseField(header, name) }
		proxy, isProxy := w.(ProxyWriter)
		switch {
		case isProxy && proxy.Unserved():
			response = func(string) string { return "0" } // there is no service that could state a cost
		case !x.served, !isProxy && r.Context().Err() != nil:
			settle = x.verdict.SettleCut // a handler may return as soon as its client has disconnected
		}
	}
	if err := settle(r.Context(), response); err != nil {
		h.OnError(r, fmt.Errorf("settle %s %s: %w", r.Method, r.URL.Path, err))
	}
	h.release(x)
}

// responseField returns a field of a response. A trailer comes later than a header, and has precedence.
func responseField(h http.Header, name string) string {
	if trailer := h.Get(http.TrailerPrefix + name); trailer != "" {
		return trailer
	}
	return h.Get(name)
}
