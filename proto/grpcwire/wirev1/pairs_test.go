package wirev1

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

// A pair is one of our messages beside the generated one.
type pair struct {
	name      string
	ours      func() grpcwire.Message
	generated func() proto.Message
	// inGenerated returns what ours says, as the generated message.
	inGenerated func(grpcwire.Message) (proto.Message, error)
	// plain takes from a generated message what ours leaves out, such as that an empty part is there.
	plain func(proto.Message)
}

const most = 1000

var errMore = errors.New("has more than is read")

var pairs = []pair{
	{
		name:      "RateLimitRequest",
		ours:      func() grpcwire.Message { return new(RateLimitRequest) },
		generated: func() proto.Message { return new(headgatev1.RateLimitRequest) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) {
			return requestOf(m.(*RateLimitRequest))
		},
		plain: func(m proto.Message) { plainRequest(m.(*headgatev1.RateLimitRequest)) },
	},
	{
		name:      "RateLimitResponse",
		ours:      func() grpcwire.Message { return new(RateLimitResponse) },
		generated: func() proto.Message { return new(headgatev1.RateLimitResponse) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) {
			return responseOf(m.(*RateLimitResponse)), nil
		},
		plain: func(m proto.Message) { plainResponse(m.(*headgatev1.RateLimitResponse)) },
	},
	{
		name:      "BatchRateLimitRequest",
		ours:      func() grpcwire.Message { return &BatchRateLimitRequest{Max: most} },
		generated: func() proto.Message { return new(headgatev1.BatchRateLimitRequest) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) {
			batch, out := m.(*BatchRateLimitRequest), new(headgatev1.BatchRateLimitRequest)
			for i := range batch.Requests {
				q, err := requestOf(&batch.Requests[i])
				if err != nil {
					return nil, err
				}
				out.Requests = append(out.Requests, q)
			}
			return out, more(batch.TooMany)
		},
		plain: func(m proto.Message) {
			for _, q := range m.(*headgatev1.BatchRateLimitRequest).GetRequests() {
				plainRequest(q)
			}
		},
	},
	{
		name:      "BatchRateLimitResponse",
		ours:      func() grpcwire.Message { return &BatchRateLimitResponse{Max: most} },
		generated: func() proto.Message { return new(headgatev1.BatchRateLimitResponse) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) {
			batch, out := m.(*BatchRateLimitResponse), new(headgatev1.BatchRateLimitResponse)
			for i := range batch.Responses {
				out.Responses = append(out.Responses, responseOf(&batch.Responses[i]))
			}
			return out, more(batch.TooMany)
		},
		plain: func(m proto.Message) {
			for _, a := range m.(*headgatev1.BatchRateLimitResponse).GetResponses() {
				plainResponse(a)
			}
		},
	},
	{
		name:      "StreamRequest",
		ours:      func() grpcwire.Message { return new(StreamRequest) },
		generated: func() proto.Message { return new(headgatev1.StreamRequest) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) {
			q, err := requestOf(&m.(*StreamRequest).Request)
			return &headgatev1.StreamRequest{Id: m.(*StreamRequest).ID, Request: q}, err
		},
		plain: func(m proto.Message) {
			s := m.(*headgatev1.StreamRequest)
			if s.Request == nil {
				s.Request = new(headgatev1.RateLimitRequest)
			}
			plainRequest(s.Request)
		},
	},
	{
		name:      "StreamResponse",
		ours:      func() grpcwire.Message { return new(StreamResponse) },
		generated: func() proto.Message { return new(headgatev1.StreamResponse) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) {
			s := m.(*StreamResponse)
			return &headgatev1.StreamResponse{Id: s.ID, Response: responseOf(&s.Response)}, nil
		},
		plain: func(m proto.Message) {
			s := m.(*headgatev1.StreamResponse)
			if s.Response == nil {
				s.Response = new(headgatev1.RateLimitResponse)
			}
			plainResponse(s.Response)
		},
	},
	{
		name:        "DoRequest",
		ours:        func() grpcwire.Message { return &DoRequest{Max: most} },
		generated:   func() proto.Message { return new(headgatev1.DoRequest) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) { return doRequestOf(m.(*DoRequest)) },
		plain:       func(m proto.Message) { plainDoRequest(m.(*headgatev1.DoRequest)) },
	},
	{
		name:        "DoResponse",
		ours:        func() grpcwire.Message { return &DoResponse{Max: most} },
		generated:   func() proto.Message { return new(headgatev1.DoResponse) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) { return doResponseOf(m.(*DoResponse)) },
		plain:       func(m proto.Message) { plainDoResponse(m.(*headgatev1.DoResponse)) },
	},
}

func more(is bool) error {
	if is {
		return errMore
	}
	return nil
}

func requestOf(m *RateLimitRequest) (*headgatev1.RateLimitRequest, error) {
	out := &headgatev1.RateLimitRequest{
		RuleId: m.Rule,
		Client: &headgatev1.Client{UserId: m.User, ClientIp: m.IP, ApiKey: m.APIKey},
	}
	for _, a := range m.Attributes {
		if out.Attributes == nil {
			out.Attributes = make(map[string]string)
		}
		out.Attributes[a.Name] = a.Value
	}
	if m.HasCost {
		out.Cost = proto.Int64(m.Cost)
	}
	return out, more(m.TooMany)
}

func plainRequest(m *headgatev1.RateLimitRequest) {
	if m.Client == nil {
		m.Client = new(headgatev1.Client)
	}
}

func responseOf(m *RateLimitResponse) *headgatev1.RateLimitResponse {
	out := &headgatev1.RateLimitResponse{
		Passed: m.Passed, Limit: m.Limit, RemainingRequests: m.Remaining, RetryAfterMs: m.RetryAfterMs, DelayMs: m.DelayMs,
		RuleId: m.Rule, LeaseId: string(m.Lease), Degraded: m.Degraded, Reason: headgatev1.Reason(m.Reason),
		HttpStatus: m.HTTPStatus, Drop: m.Drop, Error: &headgatev1.Error{Code: m.ErrorCode, Message: m.ErrorMessage},
	}
	if m.HasReset {
		out.ResetTimestamp = &timestamppb.Timestamp{Seconds: m.ResetSeconds, Nanos: m.ResetNanos}
	}
	return out
}

func plainResponse(m *headgatev1.RateLimitResponse) {
	if m.Error == nil {
		m.Error = new(headgatev1.Error)
	}
}

// enum returns a number as it is after small.
func enum[T ~int32](n T) T { return T(smallEnum(uint64(n))) }

func limitOf(l headgate.Limit) *headgatev1.Limit {
	return &headgatev1.Limit{
		Algorithm: headgatev1.Algorithm(l.Algorithm), Count: l.Count, PeriodNs: int64(l.Period), Burst: l.Burst,
		Buckets: int32(l.Buckets), TtlNs: int64(l.TTL), Staggered: l.Staggered,
	}
}

func receiptOf(r headgate.Receipt) *headgatev1.Receipt {
	return &headgatev1.Receipt{AtUs: r.At, Units: r.Units, Lease: r.Lease}
}

func doRequestOf(m *DoRequest) (*headgatev1.DoRequest, error) {
	out := new(headgatev1.DoRequest)
	for _, op := range m.Operations {
		o := &headgatev1.Operation{Verb: headgatev1.Verb(op.Verb), Receipt: receiptOf(op.Receipt)}
		for _, c := range op.Checks {
			check := &headgatev1.Check{
				Key: []byte(c.Key), Limit: limitOf(c.Limit), Cost: c.Cost, Owner: []byte(c.Owner), Split: int32(c.Split),
				OnFailure: headgatev1.OnFailure(c.OnFailure),
			}
			if c.Safe != nil {
				check.Safe = limitOf(*c.Safe)
			}
			o.Checks = append(o.Checks, check)
		}
		out.Operations = append(out.Operations, o)
	}
	return out, more(m.TooMany)
}

func plainDoRequest(m *headgatev1.DoRequest) {
	for _, op := range m.Operations {
		op.Verb = enum(op.Verb)
		if op.Receipt == nil {
			op.Receipt = new(headgatev1.Receipt)
		}
		for _, c := range op.Checks {
			c.OnFailure = enum(c.OnFailure)
			if c.Limit == nil {
				c.Limit = new(headgatev1.Limit)
			}
			c.Limit.Algorithm = enum(c.Limit.Algorithm)
			if c.Safe != nil {
				c.Safe.Algorithm = enum(c.Safe.Algorithm)
			}
		}
	}
}

func doResponseOf(m *DoResponse) (*headgatev1.DoResponse, error) {
	out := new(headgatev1.DoResponse)
	for _, result := range m.Results {
		r := new(headgatev1.Result)
		for _, d := range result.Decisions {
			retry := int64(d.RetryAfter)
			if d.RetryAfter == headgate.Never {
				retry = -1
			}
			r.Decisions = append(r.Decisions, &headgatev1.Decision{
				Allowed: d.Allowed, Degraded: d.Degraded, Limit: d.Limit, Remaining: d.Remaining, RetryAfterNs: retry,
				ResetAfterNs: int64(d.ResetAfter), DelayNs: int64(d.Delay), Receipt: receiptOf(d.Receipt),
			})
		}
		if result.Failed {
			f := result.Failure
			r.Failure = &headgatev1.Failure{
				Fault: headgatev1.Fault(f.Fault), Message: f.Message, Field: f.Field, Value: f.Value, Want: f.Want,
			}
		}
		out.Results = append(out.Results, r)
	}
	return out, more(m.TooMany)
}

func plainDoResponse(m *headgatev1.DoResponse) {
	for _, r := range m.Results {
		if r.Failure != nil {
			r.Failure.Fault = enum(r.Failure.Fault)
		}
		for _, d := range r.Decisions {
			if d.RetryAfterNs < 0 || d.RetryAfterNs == math.MaxInt64 {
				d.RetryAfterNs = -1
			}
			if d.Receipt == nil {
				d.Receipt = new(headgatev1.Receipt)
			}
		}
	}
}

// agree reports where ours reads wire bytes in another way than the generated code, and whether what ours writes then
// says the same.
func (p *pair) agree(b []byte, ours grpcwire.Message) error {
	want := p.generated()
	wantErr := proto.Unmarshal(b, want)
	gotErr := ours.UnmarshalWire(b)
	if gotErr != nil && wantErr != nil {
		return nil //nolint:nilerr // they agree that it cannot be read
	}
	got, err := p.inGenerated(ours)
	if errors.Is(err, errMore) {
		return nil
	}
	if (gotErr == nil) != (wantErr == nil) {
		return fmt.Errorf("read %x: got error %w, want %w", b, gotErr, wantErr)
	}
	p.plain(want)
	dropUnknown(want)
	if !proto.Equal(got, want) {
		return fmt.Errorf("read %x:\n got %v\nwant %v", b, got, want)
	}
	written, err := ours.MarshalWire([]byte("before"))
	if err != nil {
		return err
	}
	back := p.generated()
	if err := proto.Unmarshal(written[len("before"):], back); err != nil || string(written[:len("before")]) != "before" {
		return fmt.Errorf("written from %x: %x: %w", b, written, err)
	}
	p.plain(back)
	if p.name == "DoResponse" { // what failed has no decisions
		for _, r := range want.(*headgatev1.DoResponse).Results {
			if r.Failure != nil {
				r.Decisions = nil
			}
		}
	}
	if p.name == "RateLimitResponse" || strings.HasSuffix(p.name, "Response") {
		forgetEmptyErrors(want)
	}
	if !proto.Equal(back, want) {
		return fmt.Errorf("written from %x:\n got %v\nwant %v", b, back, want)
	}
	return nil
}

// forgetEmptyErrors takes the message from errors without a code: these are none.
func forgetEmptyErrors(m proto.Message) {
	var all []*headgatev1.RateLimitResponse
	switch m := m.(type) {
	case *headgatev1.RateLimitResponse:
		all = append(all, m)
	case *headgatev1.BatchRateLimitResponse:
		all = m.Responses
	case *headgatev1.StreamResponse:
		all = append(all, m.Response)
	}
	for _, a := range all {
		if a.Error.GetCode() == 0 {
			a.Error = new(headgatev1.Error)
		}
	}
}

// dropUnknown forgets fields that are not known, at every level.
func dropUnknown(m proto.Message) {
	options := proto.UnmarshalOptions{DiscardUnknown: true}
	b, err := proto.Marshal(m)
	if err == nil {
		proto.Reset(m)
		err = options.Unmarshal(b, m)
	}
	if err != nil {
		panic(err)
	}
}
