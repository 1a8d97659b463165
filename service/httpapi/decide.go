package httpapi

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
)

// Values of header fields. Nobody changes them.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
)

// single answers POST /v1/ratelimit.
func (s *Server) single(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get().(*call)
	defer s.release(c)
	if !s.read(w, r, c) {
		return
	}
	if err := c.readOne(); err != nil {
		badBody(c.text, err).answer(w)
		return
	}
	a := s.askers.Get().(*asker)
	defer s.forget(a)
	if err := s.decide(r.Context(), c, &c.requests[0], a); err != nil {
		s.undecided(w, r, err)
		return
	}
	v, now := &a.verdict, s.config.Now()
	if r.Context().Err() != nil && v.Action.Passes() && v.Settles() {
		if err := v.Cancel(context.Background()); err != nil {
			s.fault(r.URL.Path, err)
		}
		gone.answer(w)
		return
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	s.tell(h, a, now)
	c.out = append(appendDecision(append(c.out[:0], '{'), v, now), "}\n"...)
	switch {
	case v.Reason == engine.Overloaded:
		w.WriteHeader(http.StatusServiceUnavailable)
	case !v.Action.Passes():
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(c.out) // a caller that is gone has no use for it
}

// decide decides one request.
func (s *Server) decide(ctx context.Context, c *call, q *request, a *asker) error {
	values := identity.Values{IP: q.ip, User: q.user, APIKey: q.key}
	if q.from < q.to {
		clear(a.given)
		for _, given := range c.attributes[q.from:q.to] {
			a.given[given.name] = given.value
		}
		values.Attributes = a.given
	}
	if err := s.config.Identifier.ReadValues(values, &a.who); err != nil {
		return err
	}
	terms := engine.Terms{Rule: q.rule, Cost: q.cost, HasCost: q.has&hasCost != 0, Unheld: true}
	return s.config.Engine.DecideTerms(ctx, &a.who, terms, &a.verdict)
}

// undecided answers a call that could not be decided.
func (s *Server) undecided(w http.ResponseWriter, r *http.Request, err error) {
	p, fault := problemOf(err)
	if fault && r.Context().Err() == nil {
		s.fault(r.URL.Path, err)
	}
	p.answer(w)
}

func (s *Server) fault(path string, err error) {
	if s.faults.now(time.Now(), time.Second) {
		s.config.Logger.Warn("a decision could not be made", "path", path, "err", err.Error(), "more", "at most one of these is logged a second")
	}
}

// tell puts into a header what tells of limits, and returns when a client who is denied should come back.
func (s *Server) tell(h http.Header, a *asker, now time.Time) (retryAfter time.Duration) {
	f := &s.config.Fields
	retryAfter = f.RetryAfter(&a.verdict)
	if retryAfter == 0 && f.NoRateLimit && f.NoXRateLimit {
		return 0
	}
	a.fields = f.Append(a.fields[:0], &a.verdict, retryAfter, now)
	if len(a.fields) == 0 {
		return retryAfter
	}
	values := make([]string, len(a.fields))
	for i := range a.fields {
		values[i] = a.fields[i].Value
		h[a.fields[i].Name] = values[i : i+1 : i+1]
	}
	return retryAfter
}

// appendDecision appends the members of an answer.
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
		dst = appendTime(dst, now.Add(max(d.ResetAfter, 0)+time.Millisecond-1)) // never before it is
		dst = append(dst, '"')
	}
	dst = append(dst, `,"retryAfterMs":`...)
	dst = strconv.AppendInt(dst, retryMillis(v), 10)
	dst = append(dst, `,"delayMs":`...)
	dst = strconv.AppendInt(dst, millis(v.Delay), 10)
	if v.Rule != nil {
		dst = append(dst, `,"ruleId":`...)
		dst = appendString(dst, v.Rule.ID)
	}
	if passes && v.Settles() {
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

// appendTime appends a time as RFC 3339 has it, in UTC and to the millisecond.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	if year < 0 || year > 9999 {
		return t.AppendFormat(dst, time.RFC3339) // as it may be
	}
	for _, part := range [...]struct {
		value, digits int
		then          byte
	}{{year, 4, '-'}, {int(month), 2, '-'}, {day, 2, 'T'}, {hour, 2, ':'}, {minute, 2, ':'}, {second, 2, '.'}, {t.Nanosecond() / 1e6, 3, 'Z'}} {
		at := len(dst)
		dst = append(dst, "0000"[:part.digits]...)
		for i := at + part.digits - 1; part.value > 0; i-- {
			dst[i] += byte(part.value % 10)
			part.value /= 10
		}
		dst = append(dst, part.then)
	}
	return dst
}

// retryMillis returns when to come back: 0 for who passes, -1 if that is of no use.
func retryMillis(v *engine.Verdict) int64 {
	switch {
	case v.Action.Passes():
		return 0
	case v.RetryAfter == headgate.Never:
		return -1
	default:
		return millis(v.RetryAfter)
	}
}

// millis rounds up, so that who waits so long has waited long enough.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}

// batch answers POST /v1/ratelimit:batch.
func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get().(*call)
	defer s.release(c)
	if !s.read(w, r, c) {
		return
	}
	if err := c.readBatch(s.config.MaxBatch); err != nil {
		badBody(c.text, err).answer(w)
		return
	}
	if s.config.Parallel == 1 || len(c.requests) < 2 {
		c.out = s.oneByOne(r.Context(), c)
	} else {
		c.out = s.sideBySide(r.Context(), c)
	}
	if r.Context().Err() != nil && bytes.Contains(c.out, []byte(leaseMember)) {
		s.withdraw(c.out)
		gone.answer(w)
		return
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(c.out))}
	_, _ = w.Write(c.out) // a caller that is gone has no use for it
}

// gone answers a caller that seems to have gone while places were taken for him, which are given back. Most likely nobody hears
// it. But who has only ended what he sends looks the same, and must not take silence for a yes.
var gone = problem{status: http.StatusServiceUnavailable, detail: "The connection was closed before the decision was made."}

// withdraw gives back the places that the answers of a batch hold. Units stay taken.
func (s *Server) withdraw(answers []byte) {
	// Quotes within a string are escaped, so that only a member of an answer reads like this.
	for _, rest := range bytes.Split(answers, []byte(leaseMember))[1:] {
		lease, _, _ := bytes.Cut(rest, []byte{'"'})
		if err := s.config.Engine.Release(context.Background(), string(lease)); err != nil {
			s.fault("/v1/ratelimit:batch", err)
		}
	}
}

// leaseMember begins the lease of an answer.
const leaseMember = `,"leaseId":"`

// oneByOne returns the answers to all requests of a call, decided in their order.
func (s *Server) oneByOne(ctx context.Context, c *call) []byte {
	a := s.askers.Get().(*asker)
	defer s.forget(a)
	out := c.out[:0]
	out = append(out, '[')
	for i := range c.requests {
		if i > 0 {
			out = append(out, ',', '\n')
		}
		out = s.appendAnswer(ctx, out, c, &c.requests[i], a)
	}
	return append(out, "]\n"...)
}

// sideBySide returns the answers to all requests of a call, several decided at once.
func (s *Server) sideBySide(ctx context.Context, c *call) []byte {
	answers := make([][]byte, len(c.requests))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(s.config.Parallel, len(c.requests)) {
		group.Go(func() {
			a := s.askers.Get().(*asker)
			defer s.forget(a)
			for i := next.Add(1) - 1; i < int64(len(c.requests)); i = next.Add(1) - 1 {
				answers[i] = s.appendAnswer(ctx, nil, c, &c.requests[i], a)
			}
		})
	}
	group.Wait()
	out := c.out[:0]
	out = append(out, '[')
	for i, answer := range answers {
		if i > 0 {
			out = append(out, ',', '\n')
		}
		out = append(out, answer...)
	}
	return append(out, "]\n"...)
}

// appendAnswer decides a request of a batch and appends its answer.
func (s *Server) appendAnswer(ctx context.Context, dst []byte, c *call, q *request, a *asker) []byte {
	if err := s.decide(ctx, c, q, a); err != nil {
		p, fault := problemOf(err)
		if fault && ctx.Err() == nil {
			s.fault("/v1/ratelimit:batch", err)
		}
		return p.append(dst)
	}
	dst = append(dst, `{"status":`...)
	switch {
	case a.verdict.Action.Passes():
		dst = append(dst, "200,"...)
	case a.verdict.Reason == engine.Overloaded:
		dst = append(dst, "503,"...)
	default:
		dst = append(dst, "429,"...)
	}
	return append(appendDecision(dst, &a.verdict, s.config.Now()), '}')
}

// releaseLease answers POST /v1/ratelimit:release.
func (s *Server) releaseLease(w http.ResponseWriter, r *http.Request) {
	c := s.calls.Get().(*call)
	defer s.release(c)
	if !s.read(w, r, c) {
		return
	}
	lease, err := c.readRelease()
	if err != nil {
		badBody(c.text, err).answer(w)
		return
	}
	if err := s.config.Engine.Release(r.Context(), lease); err != nil {
		p, fault := problemOf(err)
		if fault {
			p.detail = "The lease could not be released; it ends by itself when its time is over."
			s.fault(r.URL.Path, err)
		}
		p.answer(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
