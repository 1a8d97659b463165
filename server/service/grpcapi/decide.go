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
	"github.com/headgate/headgate/server/telemetry/traces"
)

// A decision has the memory for one decision. The memory is reused.
type decision struct {
	attributes   identity.Attributes
	verdict      engine.Verdict
	attributeMap map[string]string
	lease        []byte
	response     wirev1.RateLimitResponse
}

func newDecision() *decision { return &decision{attributeMap: make(map[string]string)} }

// decide decides a request. The response is in d.response, and valid until d is used again. now is the time for
// reset_timestamp.
func (s *Server) decide(ctx context.Context, q *wirev1.RateLimitRequest, d *decision, now time.Time) error {
	span := s.config.Tracer.StartPart(ctx, traces.Identify)
	options, err := s.readRequest(q, d)
	span.End()
	if err != nil {
		return err
	}
	if err := s.config.Engine.DecideWith(ctx, &d.attributes, options, &d.verdict); err != nil {
		return err
	}
	d.setVerdict(&d.verdict, now)
	return nil
}

// readRequest reads the client's attributes into d.attributes and returns the options.
func (s *Server) readRequest(q *wirev1.RateLimitRequest, d *decision) (engine.DecideOptions, error) {
	values := identity.Values{IP: q.IP, User: q.User, APIKey: q.APIKey}
	if q.TooMany {
		return engine.DecideOptions{}, &headgate.InputError{
			Err: headgate.ErrInvalidCheck, Field: "attributes", Value: "of more than " + strconv.Itoa(wirev1.MaxAttributes) +
				" names",
			Want: "at most " + strconv.Itoa(identity.MaxAttributes),
		}
	}
	if len(q.Attributes) > 0 {
		clear(d.attributeMap)
		for i := range q.Attributes {
			d.attributeMap[q.Attributes[i].Name] = q.Attributes[i].Value
		}
		values.Attributes = d.attributeMap
	}
	if err := s.config.Identifier.ReadValues(values, &d.attributes); err != nil {
		return engine.DecideOptions{}, err
	}
	return engine.DecideOptions{Rule: q.Rule, Cost: q.Cost, HasCost: q.HasCost, NoWait: true}, nil
}

// setVerdict writes a verdict into the response.
func (d *decision) setVerdict(v *engine.Verdict, now time.Time) {
	passes := v.Action.Passes()
	d.response = wirev1.RateLimitResponse{Passed: passes, Degraded: v.Degraded, DelayMs: service.Millis(v.Delay)}
	if taken := &v.Decision; taken.Limit > 0 {
		d.response.Limit, d.response.Remaining = taken.Limit, max(taken.Remaining, 0)
		// Round up to milliseconds, as in responses over HTTP.
		reset := now.Add(max(taken.ResetAfter, 0) + time.Millisecond - 1)
		d.response.HasReset, d.response.ResetSeconds = true, reset.Unix()
		d.response.ResetNanos = int32(reset.Nanosecond() / 1e6 * 1e6)
	}
	if v.Rule != nil {
		d.response.Rule = v.Rule.ID
	}
	switch {
	case !passes:
		d.response.Reason, d.response.HTTPStatus, d.response.Drop = int32(v.Reason), int32(v.Status), v.Action == engine.Drop
		d.response.RetryAfterMs = -1
		if v.RetryAfter != headgate.Never {
			d.response.RetryAfterMs = service.Millis(v.RetryAfter)
		}
	case v.NeedsSettle():
		d.lease = v.AppendLease(d.lease[:0])
		d.response.Lease = d.lease
	}
}

// decideOrSetError decides a request of a batch or stream. An error becomes part of the response.
func (s *Server) decideOrSetError(ctx context.Context, q *wirev1.RateLimitRequest, d *decision, now time.Time) {
	if err := s.decide(ctx, q, d, now); err != nil {
		s.setError(d, err)
	}
}

// setError writes an error into the response to one request of a call.
func (s *Server) setError(d *decision, err error) {
	code, message, fault := codeOf(err)
	if fault {
		s.logFault(err)
	}
	d.response = wirev1.RateLimitResponse{ErrorCode: int32(code), ErrorMessage: message}
}

// withdraw returns the units that were taken for a response that is not delivered.
func (s *Server) withdraw(d *decision) {
	if err := d.verdict.Cancel(context.Background()); err != nil {
		s.logFault(err)
	}
}
