package gateway

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/headgate/headgate/server/gateway/upstream"
	"github.com/headgate/headgate/server/telemetry/traces"
)

// startSpan starts the span of a request, and returns a copy of the request with the span in its context.
func (ex *exchange) startSpan(g *Gateway, r *http.Request) *http.Request {
	t := g.config.Tracer
	trusted := !t.ReadsProxies() || g.isFromProxy(r)
	ctx, span := t.StartHTTP(r, r.Method, trusted)
	ex.span = span
	return r.WithContext(ctx)
}

// isFromProxy reports whether a trusted proxy has sent a request.
func (g *Gateway) isFromProxy(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && g.identity.IsProxy(peer.Addr())
}

// endSpan ends the span of a request.
func (ex *exchange) endSpan() {
	if ex.span.Records() {
		if ex.route != nil && ex.route.config.Name != "" {
			ex.span.SetString("headgate.route", ex.route.config.Name)
		}
		if ex.request.id != nil {
			ex.span.SetString("headgate.request_id", ex.request.id[0])
		}
	}
	ex.span.EndHTTP(ex.response.status)
	ex.span = traces.Span{}
}

// sendTraced calls sendTo within a new span, which is the parent of the upstream's spans.
func (ex *exchange) sendTraced(
	ctx context.Context, w http.ResponseWriter, r *http.Request, s *upstreamServer,
) (upstream.Outcome, error) {
	t, f := ex.g.config.Tracer, &ex.forward
	ctx, span := t.StartUpstream(ctx, s.url)
	defer span.End() // also if a handler panics
	before := len(f.fields)
	parent, state := t.Headers(ctx)
	f.setField(traces.HeaderParent, parent)
	f.setField(traces.HeaderState, state) // an empty value removes the header that the client sent
	outcome, err := ex.sendTo(ctx, w, r, s)
	f.fields = f.fields[:before] // a retry sets the headers of its own span
	if span.Records() {
		if outcome.Status != 0 {
			span.SetInt("http.response.status_code", int64(outcome.Status))
		}
		if err != nil {
			span.Fail(err.Error())
		} else if outcome.Status >= http.StatusInternalServerError {
			span.Fail(http.StatusText(outcome.Status))
		}
	}
	return outcome, err
}
