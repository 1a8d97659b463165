package gateway

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/headgate/headgate/gateway/upstream"
)

// proxy sends a request on that the limiter has let pass.
func (g *Gateway) proxy(w http.ResponseWriter, r *http.Request) {
	ex := exchangeOf(w)
	switch {
	case ex == nil:
		// Without it nothing that was found out about the request is known here.
		g.config.Logger.Error("the limiter hands on a ResponseWriter of its own that has no method Unwrap")
		http.Error(w, "internal error", http.StatusInternalServerError)
	case ex.path == "*":
		w.WriteHeader(http.StatusNoContent) // about the server on the whole, which we are
	case ex.route == nil:
		ex.answer(w, http.StatusNotFound, "There is no route for this host and path.")
	case r.Method == http.MethodOptions && ex.endsHere(r):
		w.WriteHeader(http.StatusNoContent)
	default:
		ex.send(w, r)
	}
}

// endsHere reports whether Max-Forwards says that the request is meant for us, and counts it down if not.
func (ex *exchange) endsHere(r *http.Request) bool {
	const name = "Max-Forwards"
	lines := r.Header[name]
	if len(lines) == 0 {
		return false
	}
	n, err := strconv.ParseUint(lines[0], 10, 31)
	if err != nil || len(lines) > 1 {
		delete(r.Header, name) // it says nothing, and must not be passed on as it is
		return false
	}
	if n == 0 {
		return true
	}
	r.Header[name] = []string{strconv.FormatUint(n-1, 10)}
	return false
}

// send sends the request to an upstream, and to another if the first does not take it.
func (ex *exchange) send(w http.ResponseWriter, r *http.Request) {
	rt := ex.route
	if ex.hops.upgrade != "" {
		delete(r.Header, "Upgrade") // who upgrades sets it himself
	}
	ex.setFields(r)
	ex.takeBody(r)
	if ex.body != nil && !ex.beginUpload(w, r) {
		return
	}
	ctx := r.Context()
	if total := rt.config.TotalTimeout; total > 0 && ex.hops.upgrade == "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, total)
		defer cancel()
	}
	ex.unsent = true
	var tried uint64
	for {
		s := rt.pick(ex.g, tried)
		if s == nil {
			ex.fault = or2(ex.fault, errNobody)
			setRetryAfter(w.Header(), rt.retryAfter())
			ex.answer(w, http.StatusServiceUnavailable, "No upstream can take the request.")
			return
		}
		ex.upstream = s
		outcome, err := ex.try(ctx, w, r, s)
		if !isUnsent(err) {
			ex.unsent = false
		}
		if err == nil {
			if s.succeeded(rt, outcome.Status, ex.g) {
				ex.g.config.Logger.Warn("upstream is left out for a while", "route", rt.config.Name, "upstream", s.url, "status", outcome.Status)
			}
			return
		}
		ex.blame(ctx, s, err)
		if !ex.mayRetry(ctx, r, &outcome, err) {
			ex.fail(w, &outcome, err)
			return
		}
		tried |= rt.bitOf(s)
		if rt.pick(ex.g, tried) == nil {
			ex.fail(w, &outcome, err) // this says more than that there is nobody else
			return
		}
		ex.retries++
		ex.g.figures.retries.add(ex.stripe)
	}
}

var errNobody = errors.New("no upstream is up")

func or2(err, instead error) error {
	if err != nil {
		return err
	}
	return instead
}

// crowded is how many requests may be under way for each core before those that are decided let others be decided first. Code
// and data of the limiter are then fetched into the caches once for several of them, which spares more than waiting costs. With
// fewer under way there is hardly another that could be decided meanwhile. Who lets others go first is behind those that can run
// at that moment, and not behind any that come later: nobody starves. Connections that were upgraded wait for hours, and for
// nothing that is decided, so they are no crowd.
const crowded = 8

// begins counts a request, and reports whether there is a crowd.
func (s *upstreamServer) begins(crowd int64) bool { return s.inFlight.Add(1)-s.upgraded.Load() > crowd }

// try asks one upstream.
func (ex *exchange) try(ctx context.Context, w http.ResponseWriter, r *http.Request, s *upstreamServer) (upstream.Outcome, error) {
	s.requests.Add(1)
	if s.begins(ex.g.crowd) {
		runtime.Gosched()
	}
	defer s.inFlight.Add(-1)
	head := upstream.Head{Target: ex.target, Host: ex.route.config.SendHost, Fields: ex.fields.list()}
	if ex.hops.upgrade != "" && s.tunnel != nil {
		return ex.upgrade(w, r, s, &head)
	}
	return s.leg.Forward(ctx, w, r, head)
}

// blame counts an error against an upstream, if it is its fault, and tells the operator: clients hear no more than that it
// has failed.
func (ex *exchange) blame(ctx context.Context, s *upstreamServer, err error) {
	var e *upstream.Error
	if errors.As(err, &e) {
		s.faults[e.Fault%faultKinds].Add(1)
	}
	if ctx.Err() != nil || !blames(err) {
		return
	}
	now, log := ex.g.now(), ex.g.config.Logger
	if s.failedWith(ex.route, err, now) {
		log.Warn("upstream is left out for a while", "route", ex.route.config.Name, "upstream", s.url, "err", err)
	} else if ok, missed := s.tells(ex.g.epoch.Add(now)); ok {
		log.Warn("request failed at the upstream", "route", ex.route.config.Name, "upstream", s.url, "err", err, "more", missed)
	}
}

// isUnsent reports whether an error means that nothing was sent.
func isUnsent(err error) bool {
	var e *upstream.Error
	return err != nil && errors.As(err, &e) && (e.Fault == upstream.FaultDial || e.Fault == upstream.FaultBusy)
}

// mayRetry reports whether the request can be tried on another upstream without being done twice.
func (ex *exchange) mayRetry(ctx context.Context, r *http.Request, outcome *upstream.Outcome, err error) bool {
	var e *upstream.Error
	if ex.retries >= ex.route.config.Retries || outcome.Sent || ctx.Err() != nil || !errors.As(err, &e) {
		return false
	}
	switch e.Fault {
	case upstream.FaultDial, upstream.FaultBusy: // nothing was sent
		return ex.body == nil || ex.body.rewind()
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

// fail answers for an upstream that did not serve the request. If the answer has begun, the client's connection is aborted,
// so that he cannot take it for complete.
func (ex *exchange) fail(w http.ResponseWriter, outcome *upstream.Outcome, err error) {
	ex.fault = or2(ex.bodyFault(err), err)
	if ex.hijacked {
		return
	}
	if outcome.Sent || ex.wrote {
		panic(http.ErrAbortHandler)
	}
	status, detail := ex.explain(err)
	if status == statusClientGone {
		ex.status = status
		panic(http.ErrAbortHandler)
	}
	if status == http.StatusServiceUnavailable {
		setRetryAfter(w.Header(), time.Second)
	}
	ex.answer(w, status, detail)
}

// bodyFault returns what the client has done wrong with the body, if that is why a leg has failed; else nil.
func (ex *exchange) bodyFault(err error) error {
	var e *upstream.Error
	if ex.body == nil || !errors.As(err, &e) || e.Fault != upstream.FaultBody && e.Fault != upstream.FaultClient {
		return nil
	}
	return ex.body.failed()
}

// explain returns what to answer for an error.
func (ex *exchange) explain(err error) (status int, detail string) {
	var e *upstream.Error
	if !errors.As(err, &e) {
		return http.StatusBadGateway, "The upstream could not be asked."
	}
	switch failed := ex.bodyFault(err); {
	case errors.Is(failed, errBodyTooLarge):
		return http.StatusRequestEntityTooLarge, "The body may have at most " + strconv.FormatInt(ex.route.config.MaxBody, 10) + " bytes."
	case errors.Is(failed, errBodyTooSlow):
		return http.StatusRequestTimeout, "The body did not arrive in time."
	case ex.body != nil && e.Fault == upstream.FaultBody:
		return http.StatusBadRequest, "The body could not be read."
	}
	switch status = e.Status(); status {
	case http.StatusBadRequest:
		detail = "The request cannot be sent on."
	case http.StatusGatewayTimeout:
		detail = "The upstream did not answer in time."
	case http.StatusServiceUnavailable:
		detail = "All connections are in use."
	case http.StatusBadGateway:
		detail = "The upstream did not answer as it should."
		if e.Fault == upstream.FaultDial {
			detail = "The upstream cannot be reached."
		}
	}
	return status, detail
}
