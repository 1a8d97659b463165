package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/headgate/headgate/engine"
)

// The names of the spans that are not phases of a decision.
const (
	Identify = "identify"
	Upstream = "upstream"
)

// A Span is the span of a request or of one of its parts. The zero Span records nothing.
type Span struct{ span trace.Span }

// Records reports whether the span is recorded, because its request is sampled.
func (s Span) Records() bool { return s.span != nil && s.span.IsRecording() }

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// SetString sets an attribute.
func (s Span) SetString(name, value string) { s.span.SetAttributes(attribute.String(name, value)) }

// SetInt sets an attribute.
func (s Span) SetInt(name string, value int64) { s.span.SetAttributes(attribute.Int64(name, value)) }

// SetBool sets an attribute.
func (s Span) SetBool(name string, value bool) { s.span.SetAttributes(attribute.Bool(name, value)) }

// maxReason is the maximum size of a reason in a span, in bytes.
const maxReason = 256

// Fail marks the span as failed, with a reason.
func (s Span) Fail(reason string) {
	s.span.SetStatus(codes.Error, reason[:min(len(reason), maxReason)])
}

// StartPart starts the span of a part of a request. It returns the zero Span if the request is not sampled.
func (t *Tracer) StartPart(ctx context.Context, name string) Span {
	if t == nil {
		return Span{}
	}
	return t.startPart(ctx, name)
}

func (t *Tracer) startPart(ctx context.Context, name string) Span {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return Span{}
	}
	_, span := t.tracer.Start(ctx, name)
	return Span{span}
}

// Phases returns the TraceFunc that starts the spans of the phases of decisions, nil if the Tracer is off.
func (t *Tracer) Phases() engine.TraceFunc {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, p engine.Phase) (context.Context, func(*engine.Verdict, error)) {
		if !trace.SpanFromContext(ctx).IsRecording() {
			return ctx, nil
		}
		inner, span := t.tracer.Start(ctx, p.String())
		return inner, func(v *engine.Verdict, err error) {
			describePhase(Span{span}, p, v, err)
			span.End()
		}
	}
}

// describePhase sets the attributes of a phase that has ended. It omits keys and names of clients.
func describePhase(s Span, p engine.Phase, v *engine.Verdict, err error) {
	if err != nil {
		s.Fail(err.Error())
		return
	}
	if v == nil {
		return
	}
	if p == engine.Matching {
		s.SetInt("headgate.rules", int64(len(v.Matched())))
		return
	}
	s.SetString("headgate.verdict", v.Action.String())
	s.SetInt("headgate.remaining", v.Decision.Remaining)
	if v.Rule != nil {
		s.SetString("headgate.rule", v.Rule.ID)
	}
	if !v.Action.Passes() {
		s.SetString("headgate.reason", v.Reason.String())
	}
	if v.Degraded {
		s.SetBool("headgate.degraded", true)
	}
}
