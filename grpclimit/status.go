package grpclimit

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/httplimit"
)

// errDropped is the status of a dropped call. Clients report the same status for a closed connection. A gRPC server can
// neither close the connection nor end the stream without a status.
var errDropped = status.Error(codes.Unavailable, "")

// denialStatus returns the status of a denied call.
func denialStatus(v *engine.Verdict, retryAfter time.Duration) error {
	code, message := codes.ResourceExhausted, "over the limit"
	switch v.Reason {
	case engine.Blocked:
		code, message = codes.PermissionDenied, "blocked"
	case engine.Unregistered:
		code, message = codes.PermissionDenied, "the client is not registered"
	case engine.Unidentified:
		code, message = codes.Unauthenticated, "the client is not identified"
		if v.Status == http.StatusBadRequest {
			code = codes.InvalidArgument
			message = "the client's identity is ambiguous: an attribute has several values or readings"
		}
	case engine.QueueFull:
		message = "too many calls are waiting already"
	case engine.StoreFailed:
		message = "the limits cannot be checked right now"
	case engine.Overloaded:
		message = "too many calls arrived at the same time"
	}
	if v.RetryAfter == headgate.Never && v.Reason == engine.OverLimit {
		message = "the call costs more than the limit can ever grant"
	}
	if v.Status == http.StatusServiceUnavailable {
		code = codes.Unavailable
	}
	st := status.New(code, message)
	var details []protoadapt.MessageV1
	if retryAfter > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(retryAfter)}))
	}
	if quota := violations(v); len(quota) > 0 {
		details = append(details, protoadapt.MessageV1Of(&errdetails.QuotaFailure{Violations: quota}))
	}
	if detailed, err := st.WithDetails(details...); err == nil {
		st = detailed
	}
	return st.Err()
}

// violations lists the limits that deny.
func violations(v *engine.Verdict) []*errdetails.QuotaFailure_Violation {
	var list []*errdetails.QuotaFailure_Violation
	limits := v.Limits()
	for i := range limits {
		if a := &limits[i]; !a.Shadow && !a.Decision.Allowed {
			list = append(list, &errdetails.QuotaFailure_Violation{
				Subject:     httplimit.PolicyName(limits, i),
				Description: a.Limit.String(),
			})
		}
	}
	return list
}

// canceledStatus returns the status of a call whose context ended while it was delayed.
func canceledStatus(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.FromContextError(err).Err()
}
