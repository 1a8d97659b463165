package grpcapi

import (
	"context"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/proto/grpcwire/wirev1"
	"github.com/headgate/headgate/server/service"
)

// A decision holds the memory for one decision. It is reused.
type decision struct {
	attributes   identity.Attributes
	verdict      engine.Verdict
	attributeMap map[string]string
	lease        []byte
	response     wirev1.RateLimitResponse
}

func newDecision() *decision { return &decision{attributeMap: make(map[string]string)} }

// decide decides a request at about the time now. The response is in a.response and valid until the next call.
func (s *Server) decide(ctx context.Context, q *wirev1.RateLimitRequest, a *decision, now time.Time) error {
	terms, err := s.readRequest(q, a)
	if err != nil {
		return err
	}
	if err := s.config.Engine.DecideTerms(ctx, &a.attributes, terms, &a.verdict); err != nil {
		return err
	}
	a.setVerdict(&a.verdict, now)
	return nil
}

// readRequest reads the client's attributes into a.attributes and returns the terms.
func (s *Server) readRequest(q *wirev1.RateLimitRequest, a *decision) (engine.Terms, error) {
	values := identity.Values{IP: q.IP, User: q.User, APIKey: q.APIKey}
	if q.TooMany {
		return engine.Terms{}, &headgate.InputError{
			Err: headgate.ErrInvalidCheck, Field: "attributes", Value: "of more than " + strconv.Itoa(wirev1.MaxAttributes) +
				" names",
			Want: "at most " + strconv.Itoa(identity.MaxAttributes),
		}
	}
	if len(q.Attributes) > 0 {
		clear(a.attributeMap)
		for i := range q.Attributes {
			a.attributeMap[q.Attributes[i].Name] = q.Attributes[i].Value
		}
		values.Attributes = a.attributeMap
	}
	if err := s.config.Identifier.ReadValues(values, &a.attributes); err != nil {
		return engine.Terms{}, err
	}
	return engine.Terms{Rule: q.Rule, Cost: q.Cost, HasCost: q.HasCost, Unheld: true}, nil
}

// setVerdict writes a verdict into the response.
func (a *decision) setVerdict(v *engine.Verdict, now time.Time) {
	passes := v.Action.Passes()
	a.response = wirev1.RateLimitResponse{Passed: passes, Degraded: v.Degraded, DelayMs: service.Millis(v.Delay)}
	if d := &v.Decision; d.Limit > 0 {
		a.response.Limit, a.response.Remaining = d.Limit, max(d.Remaining, 0)
		// To the millisecond, as over HTTP, and rounded up.
		reset := now.Add(max(d.ResetAfter, 0) + time.Millisecond - 1)
		a.response.HasReset, a.response.ResetSeconds = true, reset.Unix()
		a.response.ResetNanos = int32(reset.Nanosecond() / 1e6 * 1e6)
	}
	if v.Rule != nil {
		a.response.Rule = v.Rule.ID
	}
	switch {
	case !passes:
		a.response.Reason, a.response.HTTPStatus, a.response.Drop = int32(v.Reason), int32(v.Status), v.Action == engine.Drop
		a.response.RetryAfterMs = -1
		if v.RetryAfter != headgate.Never {
			a.response.RetryAfterMs = service.Millis(v.RetryAfter)
		}
	case v.Settles():
		a.lease = v.AppendLease(a.lease[:0])
		a.response.Lease = a.lease
	}
}

// decideOrSetError decides a request of a batch or stream. An error becomes part of the response.
func (s *Server) decideOrSetError(ctx context.Context, q *wirev1.RateLimitRequest, a *decision, now time.Time) {
	if err := s.decide(ctx, q, a, now); err != nil {
		s.setError(a, err)
	}
}

// setError writes an error into the response to one request of a call.
func (s *Server) setError(a *decision, err error) {
	code, message, fault := codeOf(err)
	if fault {
		s.logFault(err)
	}
	a.response = wirev1.RateLimitResponse{ErrorCode: int32(code), ErrorMessage: message}
}

// withdraw returns the units taken for a response that is not delivered.
func (s *Server) withdraw(a *decision) {
	if err := a.verdict.Cancel(context.Background()); err != nil {
		s.logFault(err)
	}
}
