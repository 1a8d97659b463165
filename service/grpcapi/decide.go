package grpcapi

import (
	"context"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/grpcwire/wirev1"
)

// An asker is what one decision needs. It is used again for others.
type asker struct {
	who     identity.Attributes
	verdict engine.Verdict
	given   map[string]string
	lease   []byte
	answer  wirev1.RateLimitResponse
}

func newAsker() *asker { return &asker{given: make(map[string]string)} }

// decide decides a request at about the time now. The answer is in a.answer, and good until the next.
func (s *Server) decide(ctx context.Context, q *wirev1.RateLimitRequest, a *asker, now time.Time) error {
	terms, err := s.read(q, a)
	if err != nil {
		return err
	}
	if err := s.config.Engine.DecideTerms(ctx, &a.who, terms, &a.verdict); err != nil {
		return err
	}
	a.say(&a.verdict, now)
	return nil
}

// read finds out who asks, and for what.
func (s *Server) read(q *wirev1.RateLimitRequest, a *asker) (engine.Terms, error) {
	values := identity.Values{IP: q.IP, User: q.User, APIKey: q.APIKey}
	if q.TooMany {
		return engine.Terms{}, &headgate.InputError{
			Err: headgate.ErrInvalidCheck, Field: "attributes", Value: "of more than " + strconv.Itoa(wirev1.MaxAttributes) + " names",
			Want: "at most " + strconv.Itoa(identity.MaxAttributes),
		}
	}
	if len(q.Attributes) > 0 {
		clear(a.given)
		for i := range q.Attributes {
			a.given[q.Attributes[i].Name] = q.Attributes[i].Value
		}
		values.Attributes = a.given
	}
	if err := s.config.Identifier.ReadValues(values, &a.who); err != nil {
		return engine.Terms{}, err
	}
	return engine.Terms{Rule: q.Rule, Cost: q.Cost, HasCost: q.HasCost, Unheld: true}, nil
}

// say puts a verdict into the answer.
func (a *asker) say(v *engine.Verdict, now time.Time) {
	passes := v.Action.Passes()
	a.answer = wirev1.RateLimitResponse{Passed: passes, Degraded: v.Degraded, DelayMs: millis(v.Delay)}
	if d := &v.Decision; d.Limit > 0 {
		a.answer.Limit, a.answer.Remaining = d.Limit, max(d.Remaining, 0)
		// To the millisecond, as over HTTP, and rounded up.
		reset := now.Add(max(d.ResetAfter, 0) + time.Millisecond - 1)
		a.answer.HasReset, a.answer.ResetSeconds = true, reset.Unix()
		a.answer.ResetNanos = int32(reset.Nanosecond() / 1e6 * 1e6)
	}
	if v.Rule != nil {
		a.answer.Rule = v.Rule.ID
	}
	switch {
	case !passes:
		a.answer.Reason, a.answer.HTTPStatus, a.answer.Drop = int32(v.Reason), int32(v.Status), v.Action == engine.Drop
		a.answer.RetryAfterMs = -1
		if v.RetryAfter != headgate.Never {
			a.answer.RetryAfterMs = millis(v.RetryAfter)
		}
	case v.Settles():
		a.lease = v.AppendLease(a.lease[:0])
		a.answer.Lease = a.lease
	}
}

// millis rounds up, so that who waits so long has waited long enough.
func millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}

// answer decides a request of a batch or stream. What it fails with is part of the answer.
func (s *Server) answer(ctx context.Context, q *wirev1.RateLimitRequest, a *asker, now time.Time) {
	if err := s.decide(ctx, q, a, now); err != nil {
		s.sayError(a, err)
	}
}

// sayError puts into the answer of a part of a call why there is none.
func (s *Server) sayError(a *asker, err error) {
	code, message, fault := codeOf(err)
	if fault {
		s.fault(err)
	}
	a.answer = wirev1.RateLimitResponse{ErrorCode: int32(code), ErrorMessage: message}
}

// withdraw gives back what was taken for an answer that nobody gets.
func (s *Server) withdraw(a *asker) {
	if err := a.verdict.Cancel(context.Background()); err != nil {
		s.fault(err)
	}
}
