package gateway

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/balance"
	"github.com/headgate/headgate/server/gateway/upstream"
)

// proxy serves a request that the limiter has allowed.
func (g *Gateway) proxy(w http.ResponseWriter, r *http.Request) {
	ex := exchangeOf(w)
	switch {
	case ex == nil:
		g.config.Logger.Error("request failed: the limiter's ResponseWriter has no method Unwrap")
		http.Error(w, "internal error", http.StatusInternalServerError)
	case ex.request.path == "*":
		w.WriteHeader(http.StatusNoContent) // OPTIONS * is about the server itself, which is the gateway
	case ex.route == nil:
		ex.respond(w, http.StatusNotFound, "There is no route for this host and path.")
	case r.Method == http.MethodOptions && isFinalHop(r):
		w.WriteHeader(http.StatusNoContent)
	default:
		ex.send(w, r)
	}
}

// isFinalHop reports whether the gateway must respond itself because Max-Forwards is 0. A positive Max-Forwards is
// decremented, and an invalid one is removed.
func isFinalHop(r *http.Request) bool {
	const name = "Max-Forwards"
	lines := r.Header[name]
	if len(lines) == 0 {
		return false
	}
	n, err := strconv.ParseUint(lines[0], 10, 31)
	if err != nil || len(lines) > 1 {
		delete(r.Header, name)
		return false
	}
	if n == 0 {
		return true
	}
	r.Header[name] = []string{strconv.FormatUint(n-1, 10)}
	return false
}

// send sends the request to an upstream, and to another one if the first fails and a retry is safe.
func (ex *exchange) send(w http.ResponseWriter, r *http.Request) {
	rt, f := ex.route, &ex.forward
	if ex.request.removed.upgrade != "" {
		delete(r.Header, "Upgrade") // Transport.Upgrade sets it again
	}
	ex.setForwarded(r)
	ex.boundBody(r)
	if ex.body != nil && !ex.beginUpload(w, r) {
		return
	}
	ctx := r.Context()
	if total := rt.config.TotalTimeout; total > 0 && ex.request.removed.upgrade == "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, total)
		defer cancel()
	}
	f.unsent = true
	var tried balance.Tried
	for {
		s := rt.pick(&ex.g.clock, tried)
		if s == nil {
			f.fault = errNoUpstream
			setRetryAfter(w.Header(), rt.retryAfter())
			ex.respond(w, http.StatusServiceUnavailable, "No upstream can take the request.")
			return
		}
		f.upstream = s
		var outcome upstream.Outcome
		var err error
		began := ex.g.clock.Now()
		if ex.g.config.Tracer == nil {
			outcome, err = ex.sendTo(ctx, w, r, s)
		} else {
			outcome, err = ex.sendTraced(ctx, w, r, s)
		}
		f.upstreamTime += ex.g.clock.Now() - began
		if !isUnsent(err) {
			f.unsent = false
		}
		if err == nil {
			if rt.recordResponse(s, outcome.Status, &ex.g.clock) {
				ex.g.config.Logger.Warn("upstream ejected after failures",
					"route", rt.config.Name, "upstream", s.url, "status", outcome.Status)
			}
			return
		}
		ex.recordFailure(ctx, s, err)
		if !ex.mayRetry(ctx, r, &outcome, err) {
			ex.fail(w, &outcome, err)
			return
		}
		tried.Add(s.index)
		if rt.pick(&ex.g.clock, tried) == nil {
			ex.fail(w, &outcome, err) // err says more than errNoUpstream
			return
		}
		f.retries++
		ex.g.counters.retries.add(ex.stripe)
	}
}

var errNoUpstream = errors.New("no upstream is up")

// manyInFlight limits the requests in flight for each core. Above this number, an allowed request calls runtime.Gosched
// once before it is forwarded. As a result, several requests are decided in a row, and then several are forwarded in a
// row, so the code and data of each step stay in the processor's caches. This saves more time than the wait costs.
const manyInFlight = 8

// countRequest counts a request in flight, and reports whether more than limit requests are in flight. Upgraded
// connections are not counted, because they stay in flight for hours after their decision.
func (s *upstreamServer) countRequest(limit int64) bool {
	return s.inFlight.Add(1)-s.upgraded.Load() > limit
}

// sendTo sends the request to one upstream.
func (ex *exchange) sendTo(
	ctx context.Context, w http.ResponseWriter, r *http.Request, s *upstreamServer,
) (upstream.Outcome, error) {
	s.requests.Add(1)
	if s.countRequest(ex.g.yieldAbove) {
		runtime.Gosched()
	}
	defer s.inFlight.Add(-1)
	head := upstream.Head{Target: ex.request.target, Host: ex.route.config.SendHost, Fields: ex.forward.fields}
	if ex.request.removed.upgrade != "" && s.upgrades != nil {
		return ex.upgrade(w, r, s, &head)
	}
	return s.forwarder.Forward(ctx, w, r, head)
}

// recordFailure counts an error. If the upstream caused it, recordFailure also logs it and counts it as a failure of
// the upstream, which may eject the upstream.
func (ex *exchange) recordFailure(ctx context.Context, s *upstreamServer, err error) {
	var e *upstream.Error
	if errors.As(err, &e) {
		s.faults[e.Fault%faultKinds].Add(1)
	}
	if ctx.Err() != nil || !countsAgainstUpstream(err) {
		return
	}
	now, log := ex.g.clock.Now(), ex.g.config.Logger
	if ex.route.balance.Failed(s.index, err, now) {
		log.Warn("upstream ejected after failures", "route", ex.route.config.Name, "upstream", s.url, "err", err)
	} else if ok, dropped := s.mayLogFailure(ex.g.clock.at(now)); ok {
		log.Warn("request failed at the upstream",
			"route", ex.route.config.Name, "upstream", s.url, "err", err, "more", dropped)
	}
}

// isUnsent reports whether err means that no part of the request was sent.
func isUnsent(err error) bool {
	var e *upstream.Error
	return err != nil && errors.As(err, &e) && (e.Fault == upstream.FaultDial || e.Fault == upstream.FaultBusy)
}

// mayRetry reports whether the request can be sent to another upstream, so that it has no effect twice.
func (ex *exchange) mayRetry(ctx context.Context, r *http.Request, outcome *upstream.Outcome, err error) bool {
	var e *upstream.Error
	if ex.forward.retries >= ex.route.config.Retries || outcome.Sent || ctx.Err() != nil || !errors.As(err, &e) {
		return false
	}
	switch e.Fault {
	case upstream.FaultDial, upstream.FaultBusy: // no part was sent, but some of the body may have been read
		return ex.body == nil || outcome.Repeatable || !ex.body.readStarted.Load()
	case upstream.FaultBroken:
		return ex.body == nil && isIdempotent(r.Method)
	default:
		return false
	}
}

func isIdempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	default:
		return false
	}
}

// fail responds to a request that no upstream has served. If a response has begun, fail aborts the client's connection,
// so that the response does not look complete.
func (ex *exchange) fail(w http.ResponseWriter, outcome *upstream.Outcome, err error) {
	ex.forward.fault = cmp.Or(ex.bodyFault(err), err)
	if ex.response.hijacked {
		return
	}
	if outcome.Sent || ex.response.wroteHeader {
		panic(http.ErrAbortHandler)
	}
	status, detail := ex.explain(err)
	if status == upstream.StatusClientGone {
		ex.response.status = status
		panic(http.ErrAbortHandler)
	}
	if status == http.StatusServiceUnavailable {
		setRetryAfter(w.Header(), time.Second)
	}
	ex.respond(w, status, detail)
}

// bodyFault returns the error of the client's body if that error made the forwarder fail, and nil otherwise.
func (ex *exchange) bodyFault(err error) error {
	var e *upstream.Error
	if ex.body == nil || !errors.As(err, &e) || e.Fault != upstream.FaultBody && e.Fault != upstream.FaultClient {
		return nil
	}
	return ex.body.clientFault()
}

// explain returns the status and the detail of the response to a request that failed with err.
func (ex *exchange) explain(err error) (status int, detail string) {
	var e *upstream.Error
	if !errors.As(err, &e) {
		return http.StatusBadGateway, "The request could not be forwarded."
	}
	switch fault := ex.bodyFault(err); {
	case errors.Is(fault, errBodyTooLarge):
		return http.StatusRequestEntityTooLarge, tooLarge("body", ex.route.config.MaxBody)
	case errors.Is(fault, errBodyTooSlow):
		return http.StatusRequestTimeout, "The body did not arrive in time."
	case ex.body != nil && e.Fault == upstream.FaultBody:
		return http.StatusBadRequest, "The body could not be read."
	}
	switch status = e.Status(); status {
	case http.StatusBadRequest:
		detail = "The request cannot be forwarded."
	case http.StatusGatewayTimeout:
		detail = "The upstream did not respond in time."
	case http.StatusServiceUnavailable:
		detail = "All connections are in use."
	case http.StatusBadGateway:
		detail = "The upstream sent no valid response."
		if e.Fault == upstream.FaultDial {
			detail = "The upstream is unreachable."
		}
	}
	return status, detail
}
