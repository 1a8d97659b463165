package wirev1

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/grpcwire"
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
		ours:      func() grpcwire.Message { return &BatchRateLimitRequest{Most: most} },
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
		ours:      func() grpcwire.Message { return &BatchRateLimitResponse{Most: most} },
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
		name:      "ReleaseRequest",
		ours:      func() grpcwire.Message { return new(Release) },
		generated: func() proto.Message { return new(headgatev1.ReleaseRequest) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) {
			return &headgatev1.ReleaseRequest{LeaseId: m.(*Release).Lease}, nil
		},
		plain: func(proto.Message) {},
	},
	{
		name:        "ReleaseResponse",
		ours:        func() grpcwire.Message { return new(Nothing) },
		generated:   func() proto.Message { return new(headgatev1.ReleaseResponse) },
		inGenerated: func(grpcwire.Message) (proto.Message, error) { return new(headgatev1.ReleaseResponse), nil },
		plain:       func(proto.Message) {},
	},
	{
		name:        "DoRequest",
		ours:        func() grpcwire.Message { return &DoRequest{Most: most} },
		generated:   func() proto.Message { return new(headgatev1.DoRequest) },
		inGenerated: func(m grpcwire.Message) (proto.Message, error) { return doRequestOf(m.(*DoRequest)) },
		plain:       func(m proto.Message) { plainDoRequest(m.(*headgatev1.DoRequest)) },
	},
	{
		name:        "DoResponse",
		ours:        func() grpcwire.Message { return &DoResponse{Most: most} },
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
func enum[T ~int32](n T) T { return T(small(uint64(n))) }

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

// agree reports where ours reads wire bytes in another way than the generated code, and whether what ours writes then says
// the same.
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

func check(key string, limit headgate.Limit, cost int64) headgate.Check {
	return headgate.Check{Key: key, Limit: limit, Cost: cost}
}

// examples are messages with every field set, and some without.
func examples() map[string][]grpcwire.Message {
	full := RateLimitRequest{
		Rule: "search", User: "alice", IP: "192.0.2.1", APIKey: "key", HasCost: true, Cost: 300,
		Attributes: []Attribute{{"path", "/search"}, {"header.x-plan", "gold"}, {"query.empty", ""}},
	}
	answer := RateLimitResponse{
		Passed: true, Degraded: true, Drop: true, HasReset: true, Limit: 10, Remaining: 9, ResetSeconds: 1_800_000_000,
		ResetNanos: 999_000_000, RetryAfterMs: -1, DelayMs: 250, Rule: "search", Lease: []byte(strings.Repeat("lease", 30)), Reason: 6,
		HTTPStatus: 429,
	}
	failed := RateLimitResponse{ErrorCode: 5, ErrorMessage: "no such rule"}
	safe := headgate.Per(5, time.Minute)
	hard := headgate.Check{
		Key: "k\xff\x00", Limit: headgate.Limit{Algorithm: headgate.SlidingBuckets, Count: 1 << 40, Period: time.Hour, Buckets: 60},
		Cost: 1 << 40, Owner: "o\xfe", Split: 64, OnFailure: headgate.Local, Safe: &safe,
	}
	held := check("jobs", headgate.Limit{Algorithm: headgate.Concurrency, Count: 3, TTL: time.Minute}, 1)
	staggered := check("w", headgate.Limit{Algorithm: headgate.FixedWindow, Count: 3, Period: time.Second, Staggered: true}, 0)
	decided := headgate.Decision{
		Allowed: true, Degraded: true, Limit: 10, Remaining: -100, ResetAfter: time.Hour, Delay: time.Microsecond,
		Receipt: headgate.Receipt{At: 1_800_000_000_000_000, Units: 3, Lease: math.MaxUint64},
	}
	return map[string][]grpcwire.Message{
		"RateLimitRequest":       {&full, &RateLimitRequest{}, &RateLimitRequest{HasCost: true}, &RateLimitRequest{HasCost: true, Cost: -1}},
		"RateLimitResponse":      {&answer, &failed, &RateLimitResponse{}},
		"BatchRateLimitRequest":  {&BatchRateLimitRequest{Requests: []RateLimitRequest{full, {}, full}}},
		"BatchRateLimitResponse": {&BatchRateLimitResponse{Responses: []RateLimitResponse{answer, failed, {}}}},
		"StreamRequest":          {&StreamRequest{ID: math.MaxUint64, Request: full}, &StreamRequest{}},
		"StreamResponse":         {&StreamResponse{ID: 1, Response: answer}, &StreamResponse{}},
		"ReleaseRequest":         {&Release{Lease: "abc"}, &Release{}},
		"ReleaseResponse":        {&Nothing{}},
		"DoRequest": {&DoRequest{Operations: []Operation{
			{Checks: []headgate.Check{check("a", headgate.PerSecond(10), 1), hard}},
			{Verb: Charge, Checks: []headgate.Check{staggered}},
			{Verb: Give, Checks: []headgate.Check{held}, Receipt: headgate.Receipt{At: -5, Units: 1, Lease: 77}},
			{Verb: Reset, Checks: []headgate.Check{{Key: "a"}}},
			{},
		}}},
		"DoResponse": {&DoResponse{Results: []Result{
			{Decisions: []headgate.Decision{decided, {RetryAfter: headgate.Never}, {RetryAfter: time.Second}}},
			{Failed: true, Failure: Failure{Fault: Full, Message: "m", Field: "f", Value: "v", Want: "w"}},
			{Failed: true},
			{},
		}}},
	}
}

// encoded returns the examples of a message on the wire.
func encoded(t testing.TB, name string) [][]byte {
	t.Helper()
	var all [][]byte
	for _, m := range examples()[name] {
		b, err := m.MarshalWire(nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	if all == nil {
		t.Fatalf("no example of %s", name)
	}
	return all
}

func TestMessagesReadAndWriteWhatTheGeneratedCodeDoes(t *testing.T) {
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			ours := p.ours() // the same for all: nothing of one may be left in the next
			for _, b := range encoded(t, p.name) {
				if err := p.agree(b, ours); err != nil {
					t.Error(err)
				}
				for cut := range b {
					if err := p.agree(b[:cut], ours); err != nil {
						t.Errorf("cut at %d: %v", cut, err)
					}
				}
				for i := range b {
					for _, flip := range []byte{1, 4, 8, 0x80, 0xff} {
						broken := append([]byte(nil), b...)
						broken[i] ^= flip
						if err := p.agree(broken, ours); err != nil {
							t.Errorf("byte %d changed: %v", i, err)
						}
					}
				}
				if err := p.agree(append(append([]byte(nil), b...), b...), ours); err != nil {
					t.Errorf("twice: %v", err)
				}
			}
		})
	}
}

func TestExamplesComeBackAsTheyWere(t *testing.T) {
	for _, p := range pairs {
		for i, want := range examples()[p.name] {
			b, err := want.MarshalWire(nil)
			if err != nil {
				t.Fatal(err)
			}
			got := p.ours()
			if err := got.UnmarshalWire(b); err != nil {
				t.Fatal(err)
			}
			wantIn, wantErr := p.inGenerated(want)
			gotIn, gotErr := p.inGenerated(got)
			if wantErr != nil || gotErr != nil || !proto.Equal(gotIn, wantIn) {
				t.Errorf("%s %d:\n got %v, %v\nwant %v, %v", p.name, i, gotIn, gotErr, wantIn, wantErr)
			}
		}
	}
}

// Messages a few bytes long must not become megabytes.
func TestMessagesReadNoMoreThanTheyAreTold(t *testing.T) {
	entry := func(i int) []byte { return []byte{3<<3 | 2, 4, 1<<3 | 2, 2, byte(i >> 8), byte(i) & 0x7f} }
	var b []byte
	for i := range 40_000 {
		e := entry(i % 0x7f00)
		e[4] &= 0x7f
		b = append(b, e...)
	}
	var q RateLimitRequest
	if err := q.UnmarshalWire(b); err != nil || len(q.Attributes) != MaxAttributes || !q.TooMany {
		t.Errorf("attributes: got %d, too many %v, %v; want %d and so many", len(q.Attributes), q.TooMany, err, MaxAttributes)
	}
	empties := []byte(strings.Repeat("\x0a\x00", 1<<19))
	batch := BatchRateLimitRequest{Most: 10}
	if err := batch.UnmarshalWire(empties); err != nil || len(batch.Requests) != 10 || !batch.TooMany {
		t.Errorf("requests: got %d, too many %v, %v", len(batch.Requests), batch.TooMany, err)
	}
	do := DoRequest{Most: 10}
	if err := do.UnmarshalWire(empties); err != nil || len(do.Operations) != 10 || !do.TooMany {
		t.Errorf("operations: got %d, too many %v, %v", len(do.Operations), do.TooMany, err)
	}
	checks := append([]byte{0x0a, 0x80, 0x80, 0x20}, strings.Repeat("\x12\x00", 1<<18)...)
	if err := do.UnmarshalWire(checks); err != nil || cap(do.checks) > 100 || !do.TooMany {
		t.Errorf("checks: got room for %d, too many %v, %v", cap(do.checks), do.TooMany, err)
	}
	results := DoResponse{Most: 10}
	decisions := append([]byte{0x0a, 0x80, 0x80, 0x20}, strings.Repeat("\x0a\x00", 1<<18)...)
	if err := results.UnmarshalWire(decisions); err != nil || cap(results.decisions) > 100 || !results.TooMany {
		t.Errorf("decisions: got room for %d, too many %v, %v", cap(results.decisions), results.TooMany, err)
	}
}

func TestReadingAndWritingAgainAllocatesNothing(t *testing.T) {
	for _, name := range []string{"RateLimitRequest", "BatchRateLimitRequest", "StreamRequest"} {
		for _, p := range pairs {
			if p.name != name {
				continue
			}
			b, m, dst := encoded(t, name)[0], p.ours(), make([]byte, 0, 4096)
			if got := testing.AllocsPerRun(100, func() {
				if err := m.UnmarshalWire(b); err != nil {
					t.Fatal(err)
				}
				if _, err := m.MarshalWire(dst); err != nil {
					t.Fatal(err)
				}
			}); got != 0 {
				t.Errorf("%s: got %v allocations, want none", name, got)
			}
		}
	}
}

func TestVerbsAndFaultsHaveTheNumbersOfTheProtos(t *testing.T) {
	for verb, want := range map[Verb]headgatev1.Verb{
		Take: headgatev1.Verb_VERB_UNSPECIFIED, Charge: headgatev1.Verb_VERB_CHARGE, Give: headgatev1.Verb_VERB_GIVE,
		Reset: headgatev1.Verb_VERB_RESET,
	} {
		if int32(verb) != int32(want) {
			t.Errorf("verb %v: got %d, want %d", want, verb, want)
		}
	}
	for fault, want := range map[Fault]headgatev1.Fault{
		InvalidLimit: headgatev1.Fault_FAULT_INVALID_LIMIT, InvalidCheck: headgatev1.Fault_FAULT_INVALID_CHECK,
		Unsupported: headgatev1.Fault_FAULT_UNSUPPORTED, Full: headgatev1.Fault_FAULT_FULL, Closed: headgatev1.Fault_FAULT_CLOSED,
		Unavailable: headgatev1.Fault_FAULT_UNAVAILABLE, Forbidden: headgatev1.Fault_FAULT_FORBIDDEN,
	} {
		if int32(fault) != int32(want) {
			t.Errorf("fault %v: got %d, want %d", want, fault, want)
		}
	}
	for a := range headgate.Concurrency + 1 {
		name := headgatev1.Algorithm_name[int32(a)]
		want := "ALGORITHM_" + strings.ToUpper(strings.ReplaceAll(a.String(), "-", "_"))
		if a == headgate.TokenBucket {
			want = "ALGORITHM_UNSPECIFIED"
		}
		if name != want {
			t.Errorf("algorithm %v: got %s, want %s", a, name, want)
		}
	}
	for p, want := range map[headgate.Policy]headgatev1.OnFailure{
		headgate.Open: headgatev1.OnFailure_ON_FAILURE_UNSPECIFIED, headgate.Closed: headgatev1.OnFailure_ON_FAILURE_CLOSED,
		headgate.Local: headgatev1.OnFailure_ON_FAILURE_LOCAL,
	} {
		if int32(p) != int32(want) {
			t.Errorf("policy %v: got %d, want %d", p, p, want)
		}
	}
}

// Every message that the services name is among the pairs, so that none is forgotten here.
func TestAllMessagesOfTheServicesAreCompared(t *testing.T) {
	compared := map[string]bool{}
	for _, p := range pairs {
		compared[string(p.generated().ProtoReflect().Descriptor().Name())] = true
	}
	for _, service := range []string{"RateLimiter", "Store"} {
		descriptor := headgatev1.File_headgate_v1_ratelimiter_proto.Services().ByName("RateLimiter")
		if service == "Store" {
			descriptor = headgatev1.File_headgate_v1_store_proto.Services().ByName("Store")
		}
		for i := range descriptor.Methods().Len() {
			m := descriptor.Methods().Get(i)
			for _, name := range []string{string(m.Input().Name()), string(m.Output().Name())} {
				if !compared[name] {
					t.Errorf("%s of %s is not compared", name, m.FullName())
				}
			}
		}
	}
}

func FuzzMessages(f *testing.F) {
	for i, p := range pairs {
		for _, b := range encoded(f, p.name) {
			f.Add(uint8(i), b)
		}
	}
	f.Add(uint8(0), []byte{3<<3 | 2, 5, 2<<3 | 2, 1, 0xff, 0x23, 0x24})
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		p := pairs[int(which)%len(pairs)]
		if err := p.agree(b, p.ours()); err != nil {
			t.Fatalf("%s: %v", p.name, err)
		}
	})
}
