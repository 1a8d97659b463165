package wirev1

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

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
	batch := BatchRateLimitRequest{Max: 10}
	if err := batch.UnmarshalWire(empties); err != nil || len(batch.Requests) != 10 || !batch.TooMany {
		t.Errorf("requests: got %d, too many %v, %v", len(batch.Requests), batch.TooMany, err)
	}
	do := DoRequest{Max: 10}
	if err := do.UnmarshalWire(empties); err != nil || len(do.Operations) != 10 || !do.TooMany {
		t.Errorf("operations: got %d, too many %v, %v", len(do.Operations), do.TooMany, err)
	}
	checks := append([]byte{0x0a, 0x80, 0x80, 0x20}, strings.Repeat("\x12\x00", 1<<18)...)
	if err := do.UnmarshalWire(checks); err != nil || cap(do.checks) > 100 || !do.TooMany {
		t.Errorf("checks: got room for %d, too many %v, %v", cap(do.checks), do.TooMany, err)
	}
	results := DoResponse{Max: 10}
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
	for _, a := range headgate.Algorithms() {
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

// Release and Renew use the generated messages; every other message of the services must be among the pairs.
func TestAllMessagesOfTheServicesAreCompared(t *testing.T) {
	compared := map[string]bool{
		"ReleaseRequest": true, "ReleaseResponse": true, "RenewRequest": true, "RenewResponse": true,
	}
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
