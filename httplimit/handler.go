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
	if err := c.validate(); err != nil {
		return nil, err
	}
	l := &limiter{Config: c}
	l.pool.New = func() any { return new(requestState) }
	return func(next http.Handler) http.Handler { return &handler{limiter: l, next: next} }, nil
}

// A limiter is shared by the handlers of one middleware.
type limiter struct {
	Config
	pool sync.Pool // of *requestState
}

// A handler limits requests to another handler.
type handler struct {
	*limiter
	next http.Handler
}

// A requestState is the state of one request. release makes it available for other requests, so no part of it may be
// used after that.
type requestState struct {
	client  identity.Attributes
	verdict engine.Verdict
	buf     []byte
	served  bool // the next handler has returned; its response is complete unless the client has disconnected

	rejection  rejection       // the last response to a denied request
	nextInputs rejectionInputs // memory for rejection.prepare
}

// release makes the state available for other requests.
func (l *limiter) release(state *requestState) { l.pool.Put(state) }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	state := h.pool.Get().(*requestState)
	attributes, ok := h.decide(w, r, state)
	if !ok {
		return
	}
	v := &state.verdict
	switch v.Action {
	case engine.Reject:
		h.reject(w, state)
		h.release(state)
	case engine.Drop:
		h.release(state)
		drop(w)
	default:
		if attributes == &state.client { // otherwise a ProxyWriter has checked that Connection lists no headers
			r = withoutHopByHop(r)
		}
		h.serve(w, r, state)
	}
}

// decide decides a request, and returns the attributes of its client. ok is false if decide has sent a response.
func (h *handler) decide(
	w http.ResponseWriter, r *http.Request, state *requestState,
) (client *identity.Attributes, ok bool) {
	ctx, v := r.Context(), &state.verdict
	client = h.identify(w, r, state)
	if err := client.Validate(); err != nil {
		badRequest(w, state, err)
		h.release(state)
		return client, false
	}
	if err := h.Engine.Decide(ctx, h.subject(r, client), v); err != nil {
		h.serveUndecided(w, r, state, err)
		return client, false
	}
	return client, true
}

// identify returns the attributes of the client. If w is a ProxyWriter, the proxy may have read them already.
func (h *handler) identify(w http.ResponseWriter, r *http.Request, state *requestState) *identity.Attributes {
	if proxy, ok := w.(ProxyWriter); ok {
		if attributes := proxy.Identified(h.Identifier); attributes != nil {
			return attributes
		}
	}
	h.Identifier.Read(r, &state.client)
	return &state.client
}

// withoutHopByHop returns the request without the headers that its Connection header lists. Rules do not see these
// headers, so the next handler must not see them either.
func withoutHopByHop(r *http.Request) *http.Request {
	switch lines := r.Header["Connection"]; {
	case len(lines) == 0, len(lines) == 1 && (lines[0] == "keep-alive" || lines[0] == "close" || lines[0] == "Upgrade"):
		return r
	}
	header := r.Header.Clone()
	if !identity.RemoveHopByHop(header) {
		return r
	}
	trimmed := *r
	trimmed.Header = header
	return &trimmed
}

// serveUndecided serves a request that could not be decided. It allows the request, because a failing limiter must not
// block requests. If the request was canceled, it responds instead.
func (h *handler) serveUndecided(w http.ResponseWriter, r *http.Request, state *requestState, err error) {
	if r.Context().Err() != nil {
		respondCanceled(w, state, 0)
		h.release(state)
		return
	}
	h.release(state)
	h.OnError(r, fmt.Errorf("decide %s %s: %w", r.Method, r.URL.Path, err))
	h.next.ServeHTTP(w, withoutHopByHop(r))
}

// serve calls the next handler, after the delay if there is one.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, state *requestState) {
	v := &state.verdict
	wrapped := h.fieldWriter(w, state)
	v.KeepSlots()
	if v.Action == engine.Delay {
		if err := v.Wait(r.Context()); err != nil {
			respondCanceled(w, state, v.Delay)
			h.release(state)
			return
		}
	}
	if !v.NeedsSettle() {
		h.release(state)
		h.callNext(w, wrapped, r)
		return
	}
	// Settle once, even if the handler panics or hijacks the connection.
	state.served = false
	defer h.settle(w, r, state)
	h.callNext(w, wrapped, r)
	state.served = true
}

// callNext calls the next handler with wrapped, the writer that adds the fields, or with w if there is none.
func (h *handler) callNext(w http.ResponseWriter, wrapped *writer, r *http.Request) {
	if wrapped == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	h.next.ServeHTTP(wrapped.wrap(), r)
	wrapped.addFields()
}

// fieldWriter returns the writer that adds the fields to the response. It returns nil if there are none, or if the
// server accepts them as header lines.
func (h *handler) fieldWriter(w http.ResponseWriter, state *requestState) *writer {
	v := &state.verdict
	lines, buf := headerLines(w)
	if v.ReadsResponse() {
		lines = nil
	}
	if h.Fields.NoRateLimit && h.Fields.NoXRateLimit || !anyReported(v) {
		if lines != nil {
			lines.SetHeaderLines(buf[:0], nil) // no lines; the call says that the middleware does not read Header later
		}
		return nil
	}
	if lines != nil {
		t := fieldText{buf: buf, lines: true}
		h.Fields.writeAll(&t, v, 0, h.Now())
		var replaced []string
		if t.positions[fieldLimit].to > 0 {
			replaced = xRateLimitNames
		}
		lines.SetHeaderLines(t.buf, replaced)
		return nil
	}
	wrapped := &writer{inner: w}
	state.buf = h.Fields.setValues(&wrapped.values, v, 0, h.Now(), state.buf[:0])
	return wrapped
}

// settle corrects the cost of the request to the cost that the response states, and releases the slots of the request.
func (h *handler) settle(w http.ResponseWriter, r *http.Request, state *requestState) {
	settle := state.verdict.Settle
	var response func(string) string
	if state.verdict.ReadsResponse() {
		header := w.Header()
		response = func(name string) string { return responseField(header, name) }
		proxy, isProxy := w.(ProxyWriter)
		switch {
		case isProxy && proxy.Unserved():
			response = func(string) string { return "0" } // no service has received the request, so its cost is 0
		case !state.served, !isProxy && r.Context().Err() != nil:
			settle = state.verdict.SettleIncomplete // the response is incomplete
		}
	}
	if err := settle(r.Context(), response); err != nil {
		h.OnError(r, fmt.Errorf("settle %s %s: %w", r.Method, r.URL.Path, err))
	}
	h.release(state)
}

// responseField returns a trailer of a response, or the header with that name if there is no such trailer.
func responseField(h http.Header, name string) string {
	if trailer := h.Get(http.TrailerPrefix + name); trailer != "" {
		return trailer
	}
	return h.Get(name)
}
