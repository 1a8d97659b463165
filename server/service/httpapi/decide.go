package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/telemetry/traces"
)

// Values of header fields. They must not be changed.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
)

// decideOne serves POST /v1/ratelimit.
func (s *Server) decideOne(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get().(*apiCall)
	defer s.releaseCall(c)
	if !s.readBody(w, r, c) {
		return
	}
	if err := c.readOne(); err != nil {
		badBody(c.text, err).respond(w)
		return
	}
	d := s.decisions.Get().(*decision)
	defer s.releaseDecision(d)
	if err := s.decide(r.Context(), c, &c.requests[0], d); err != nil {
		s.respondError(w, r, err)
		return
	}
	v, now := &d.verdict, s.config.Now()
	if r.Context().Err() != nil && v.Action.Passes() && v.NeedsSettle() {
		if err := v.Cancel(context.Background()); err != nil {
			s.logFault(r.URL.Path, err)
		}
		failDisconnected(w)
		return
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	s.setFields(h, d, now)
	c.out = append(appendDecision(append(c.out[:0], '{'), v, now), "}\n"...)
	switch {
	case v.Reason == engine.Overloaded:
		w.WriteHeader(http.StatusServiceUnavailable)
	case !v.Action.Passes():
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(c.out) // an error means that the caller has disconnected
}

// decide decides one request.
func (s *Server) decide(ctx context.Context, c *apiCall, q *request, d *decision) error {
	values := identity.Values{IP: q.ip, User: q.user, APIKey: q.key}
	if q.from < q.to {
		clear(d.attributeMap)
		for _, attribute := range c.attributes[q.from:q.to] {
			d.attributeMap[attribute.name] = attribute.value
		}
		values.Attributes = d.attributeMap
	}
	span := s.config.Tracer.StartPart(ctx, traces.Identify)
	err := s.config.Identifier.ReadValues(values, &d.attributes)
	span.End()
	if err != nil {
		return err
	}
	options := engine.DecideOptions{Rule: q.rule, Cost: q.cost, HasCost: q.present&hasCost != 0, NoWait: true}
	return s.config.Engine.DecideWith(ctx, &d.attributes, options, &d.verdict)
}

// respondError responds to a call whose decision failed.
func (s *Server) respondError(w http.ResponseWriter, r *http.Request, err error) {
	p, fault := problemOf(err)
	if fault && r.Context().Err() == nil {
		s.logFault(r.URL.Path, err)
	}
	p.respond(w)
}

func (s *Server) logFault(path string, err error) {
	if s.faults.Allow(time.Second) {
		s.config.Logger.Warn("decision failed", "path", path, "err", err.Error(), "note",
			"at most one of these is logged per second")
	}
}

// setFields adds the fields that describe limits to a header, and returns when a denied client should retry.
func (s *Server) setFields(h http.Header, d *decision, now time.Time) (retryAfter time.Duration) {
	f := &s.config.Fields
	retryAfter = f.RetryAfter(&d.verdict)
	if retryAfter == 0 && f.NoRateLimit && f.NoXRateLimit {
		return 0
	}
	d.fields = f.Append(d.fields[:0], &d.verdict, retryAfter, now)
	if len(d.fields) == 0 {
		return retryAfter
	}
	values := make([]string, len(d.fields))
	for i := range d.fields {
		values[i] = d.fields[i].Value
		h[d.fields[i].Name] = values[i : i+1 : i+1] // with capacity 1: appending a value must not overwrite the next field
	}
	return retryAfter
}

// appendDecision appends the members of a response.
func appendDecision(dst []byte, v *engine.Verdict, now time.Time) []byte {
	passes := v.Action.Passes()
	dst = append(dst, `"passed":`...)
	dst = strconv.AppendBool(dst, passes)
	if d := &v.Decision; d.Limit > 0 {
		dst = append(dst, `,"limit":`...)
		dst = strconv.AppendInt(dst, d.Limit, 10)
		dst = append(dst, `,"remainingRequests":`...)
		dst = strconv.AppendInt(dst, max(d.Remaining, 0), 10)
		dst = append(dst, `,"resetTimestamp":"`...)
		dst = appendTime(dst, now.Add(max(d.ResetAfter, 0)+time.Millisecond-1)) // rounded up, so that it is not too early
		dst = append(dst, '"')
	}
	dst = append(dst, `,"retryAfterMs":`...)
	dst = strconv.AppendInt(dst, retryMillis(v), 10)
	dst = append(dst, `,"delayMs":`...)
	dst = strconv.AppendInt(dst, service.Millis(v.Delay), 10)
	if v.Rule != nil {
		dst = append(dst, `,"ruleId":`...)
		dst = appendString(dst, v.Rule.ID)
	}
	if passes && v.NeedsSettle() {
		start := len(dst)
		dst = v.AppendLease(append(dst, leaseMember...))
		if len(dst) == start+len(leaseMember) {
			dst = dst[:start]
		} else {
			dst = append(dst, '"')
		}
	}
	dst = append(dst, `,"degraded":`...)
	dst = strconv.AppendBool(dst, v.Degraded)
	if !passes {
		dst = append(dst, `,"reason":"`...)
		dst = append(dst, v.Reason.String()...)
		dst = append(dst, `","httpStatus":`...)
		dst = strconv.AppendInt(dst, int64(v.Status), 10)
		if v.Action == engine.Drop {
			dst = append(dst, `,"drop":true`...)
		}
	}
	return dst
}

// appendTime appends a time in RFC 3339 format, in UTC and with milliseconds. It adds the milliseconds itself, because
// package time formats time.RFC3339 several times faster than other layouts.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	dst = t.AppendFormat(dst, time.RFC3339)
	ms := t.Nanosecond() / int(time.Millisecond)
	return append(dst[:len(dst)-len("Z")], '.', '0'+byte(ms/100), '0'+byte(ms/10%10), '0'+byte(ms%10), 'Z')
}

// retryMillis returns after how many milliseconds to retry. It is 0 if the request is allowed, and -1 if it can never
// be allowed.
func retryMillis(v *engine.Verdict) int64 {
	switch {
	case v.Action.Passes():
		return 0
	case v.RetryAfter == headgate.Never:
		return -1
	default:
		return service.Millis(v.RetryAfter)
	}
}

// decideBatch serves POST /v1/ratelimit:batch.
func (s *Server) decideBatch(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get().(*apiCall)
	defer s.releaseCall(c)
	if !s.readBody(w, r, c) {
		return
	}
	if err := c.readBatch(s.config.MaxBatch); err != nil {
		badBody(c.text, err).respond(w)
		return
	}
	if s.config.Parallel == 1 || len(c.requests) < 2 {
		s.decideInOrder(r.Context(), c)
	} else {
		s.decideConcurrently(r.Context(), c)
	}
	if r.Context().Err() != nil && bytes.Contains(c.out, []byte(leaseMember)) {
		s.freeSlots(c.out)
		failDisconnected(w)
		return
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(c.out))}
	_, _ = w.Write(c.out) // an error means that the caller has disconnected
}

// failDisconnected responds to a caller that seems to have disconnected, after its concurrency slots were freed. The
// caller may have closed only its sending side, which looks the same. So it needs a response that does not allow the
// request.
func failDisconnected(w http.ResponseWriter) {
	fail(w, http.StatusServiceUnavailable, "The connection was closed before the decision was made.")
}

// freeSlots frees the concurrency slots of the responses of a batch. Other units stay taken.
func (s *Server) freeSlots(responses []byte) {
	// Quotes within a string are escaped, so only a real leaseId member matches.
	for _, rest := range bytes.Split(responses, []byte(leaseMember))[1:] {
		lease, _, _ := bytes.Cut(rest, []byte{'"'})
		if err := s.config.Engine.Release(context.Background(), string(lease)); err != nil {
			s.logFault("/v1/ratelimit:batch", err)
		}
	}
}

// leaseMember begins the lease in a response.
const leaseMember = `,"leaseId":"`

// decideInOrder decides the requests of a batch in order, and writes the responses to c.out.
func (s *Server) decideInOrder(ctx context.Context, c *apiCall) {
	d := s.decisions.Get().(*decision)
	defer s.releaseDecision(d)
	c.writeList(func(dst []byte, i int) []byte { return s.appendResponse(ctx, dst, c, &c.requests[i], d) })
}

// writeList writes a JSON array with an element for each request to c.out.
func (c *apiCall) writeList(appendElement func(dst []byte, i int) []byte) {
	out := c.out[:0]
	out = append(out, '[')
	for i := range c.requests {
		if i > 0 {
			out = append(out, ',', '\n')
		}
		out = appendElement(out, i)
	}
	out = append(out, "]\n"...)
	c.out = out
}

// decideConcurrently decides the requests of a batch concurrently, and writes the responses to c.out.
func (s *Server) decideConcurrently(ctx context.Context, c *apiCall) {
	responses := make([][]byte, len(c.requests))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(s.config.Parallel, len(c.requests)) {
		group.Go(func() {
			d := s.decisions.Get().(*decision)
			defer s.releaseDecision(d)
			for i := next.Add(1) - 1; i < int64(len(c.requests)); i = next.Add(1) - 1 {
				responses[i] = s.appendResponse(ctx, nil, c, &c.requests[i], d)
			}
		})
	}
	group.Wait()
	c.writeList(func(dst []byte, i int) []byte { return append(dst, responses[i]...) })
}

// appendResponse decides a request of a batch and appends its response.
func (s *Server) appendResponse(ctx context.Context, dst []byte, c *apiCall, q *request, d *decision) []byte {
	if err := s.decide(ctx, c, q, d); err != nil {
		p, fault := problemOf(err)
		if fault && ctx.Err() == nil {
			s.logFault("/v1/ratelimit:batch", err)
		}
		return p.append(dst)
	}
	dst = append(dst, `{"status":`...)
	switch {
	case d.verdict.Action.Passes():
		dst = append(dst, "200,"...)
	case d.verdict.Reason == engine.Overloaded:
		dst = append(dst, "503,"...)
	default:
		dst = append(dst, "429,"...)
	}
	return append(appendDecision(dst, &d.verdict, s.config.Now()), '}')
}

// releaseLease serves POST /v1/ratelimit:release.
func (s *Server) releaseLease(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get().(*apiCall)
	defer s.releaseCall(c)
	lease, ok := s.readLease(w, r, c)
	if !ok {
		return
	}
	if err := s.config.Engine.Release(r.Context(), lease); err != nil {
		s.respondLeaseError(w, r, err, "The lease could not be released; it expires by itself.")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// renewLease serves POST /v1/ratelimit:renew.
func (s *Server) renewLease(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get().(*apiCall)
	defer s.releaseCall(c)
	lease, ok := s.readLease(w, r, c)
	if !ok {
		return
	}
	held, ttl, err := s.config.Engine.Renew(r.Context(), lease)
	if err != nil {
		s.respondLeaseError(w, r, err, "The lease could not be renewed; renew it again before it expires.")
		return
	}
	c.out = fmt.Appendf(c.out[:0], `{"held":%t,"ttlMs":%d}`+"\n", held, ttl.Milliseconds())
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(c.out))}
	if !held {
		w.WriteHeader(http.StatusConflict)
	}
	_, _ = w.Write(c.out) // an error means that the caller has disconnected
}

// readLease reads the lease of a call. If it returns false, it has written the response.
func (s *Server) readLease(w http.ResponseWriter, r *http.Request, c *apiCall) (lease string, ok bool) {
	if !s.readBody(w, r, c) {
		return "", false
	}
	lease, err := c.readLease()
	if err != nil {
		badBody(c.text, err).respond(w)
	}
	return lease, err == nil
}

// respondLeaseError responds to a call that failed. If the store failed, it is logged, and the caller gets storeFailed.
func (s *Server) respondLeaseError(w http.ResponseWriter, r *http.Request, err error, storeFailed string) {
	p, fault := problemOf(err)
	if fault {
		p.detail = storeFailed
		s.logFault(r.URL.Path, err)
	}
	p.respond(w)
}
