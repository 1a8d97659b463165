package grpcapi

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limittest"
	headgatev1 "github.com/headgate/headgate/proto/headgate/v1"
)

func ask(user, path string) *headgatev1.RateLimitRequest {
	return &headgatev1.RateLimitRequest{
		Client: &headgatev1.Client{UserId: user}, Attributes: map[string]string{"path": path},
	}
}

func at(text string) func() time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return func() time.Time { return t }
}

// A generated client calls the server, so the messages that this package writes and reads are valid.
func TestRateLimitDecidesByRules(t *testing.T) {
	now := at("2027-01-15T12:00:00Z")
	store := newStore(t, now)
	_, address := start(t, Config{Engine: newEngine(t, store, parseRules(t, ruleText)), Now: now})
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	ctx := patient(t)

	for want := int64(2); want >= 0; want-- {
		got, err := limiter.RateLimit(ctx, ask("alice", "/api/x"))
		if err != nil {
			t.Fatal(err)
		}
		if !got.Passed || got.Limit != 3 || got.RemainingRequests != want || got.RuleId != "per-user" || got.Degraded ||
			got.RetryAfterMs != 0 || got.Reason != 0 || got.HttpStatus != 0 || got.Error != nil {
			t.Errorf("got %v, want it passed with %d of 3 left", got, want)
		}
		if reset, want := got.ResetTimestamp.AsTime(), now().Add(time.Duration(3-want)*20*time.Minute); !reset.Equal(want) {
			t.Errorf("reset: got %v, want %v", reset, want)
		}
	}
	got, err := limiter.RateLimit(ctx, ask("alice", "/api/x"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Passed || got.Reason != headgatev1.Reason_REASON_OVER_LIMIT || got.HttpStatus != 429 ||
		got.RetryAfterMs != (20*time.Minute).Milliseconds() || got.RuleId != "per-user" || got.Drop {
		t.Errorf("got %v, want it denied for 20 minutes", got)
	}
	if got, err := limiter.RateLimit(ctx, ask("bob", "/api/x")); err != nil || !got.Passed {
		t.Errorf("another client: got %v, %v; want it passed", got, err)
	}
	if got, err := limiter.RateLimit(ctx, ask("bob", "/nothing")); err != nil || !got.Passed || got.Limit != 0 || got.RuleId != "" || got.ResetTimestamp != nil {
		t.Errorf("no rule: got %v, %v; want it passed without a limit", got, err)
	}
	if got, err := limiter.RateLimit(ctx, ask("mallory", "/nothing")); err != nil || got.Passed ||
		got.Reason != headgatev1.Reason_REASON_BLOCKED || got.HttpStatus != 403 || got.RetryAfterMs != -1 {
		t.Errorf("blocked: got %v, %v", got, err)
	}
}

func TestCallerChoosesRuleAndCost(t *testing.T) {
	_, address := start(t, Config{})
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	ctx := patient(t)
	named := &headgatev1.RateLimitRequest{RuleId: "per-user", Client: &headgatev1.Client{UserId: "carol"}, Cost: proto.Int64(0)}
	for range 5 {
		if got, err := limiter.RateLimit(ctx, named); err != nil || !got.Passed || got.RemainingRequests != 3 {
			t.Fatalf("cost 0: got %v, %v; want 3 left each time", got, err)
		}
	}
	named.Cost = proto.Int64(2)
	if got, err := limiter.RateLimit(ctx, named); err != nil || !got.Passed || got.RemainingRequests != 1 {
		t.Fatalf("2 of 3: got %v, %v; want 1 left", got, err)
	}
	named.Cost = proto.Int64(4)
	if got, err := limiter.RateLimit(ctx, named); err != nil || got.Passed || got.RetryAfterMs != -1 {
		t.Fatalf("4 of 3: got %v, %v; want never", got, err)
	}
	drop := ask("carol", "/drop")
	if _, err := limiter.RateLimit(ctx, drop); err != nil {
		t.Fatal(err)
	}
	if got, err := limiter.RateLimit(ctx, drop); err != nil || got.Passed || !got.Drop {
		t.Errorf("on_limit: drop: got %v, %v; want a response with drop", got, err)
	}
	if got, err := limiter.RateLimit(ctx, ask("carol", "/secret")); err != nil || got.Passed || got.Reason != headgatev1.Reason_REASON_UNIDENTIFIED {
		t.Errorf("no key: got %v, %v; want unidentified", got, err)
	}
}

func TestDelaysAreReported(t *testing.T) {
	now := at("2027-01-15T12:00:00Z")
	_, address := start(t, Config{Engine: newEngine(t, newStore(t, now), parseRules(t, ruleText))})
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	ctx := patient(t)
	for want := int64(0); want <= 3000; want += 1000 {
		got, err := limiter.RateLimit(ctx, ask("dora", "/line"))
		if err != nil || !got.Passed || got.DelayMs != want {
			t.Errorf("got %v, %v; want it passed after %d ms", got, err, want)
		}
	}
}

func TestSlotsAreHeldUntilReleased(t *testing.T) {
	_, address := start(t, Config{})
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	ctx := patient(t)
	var leases []string
	for range 2 {
		got, err := limiter.RateLimit(ctx, ask("eve", "/jobs"))
		if err != nil || !got.Passed || got.LeaseId == "" {
			t.Fatalf("got %v, %v; want a lease", got, err)
		}
		leases = append(leases, got.LeaseId)
	}
	if got, err := limiter.RateLimit(ctx, ask("eve", "/jobs")); err != nil || got.Passed || got.LeaseId != "" {
		t.Fatalf("a third: got %v, %v; want it denied", got, err)
	}
	for range 2 { // once more is no error
		if _, err := limiter.Release(ctx, &headgatev1.ReleaseRequest{LeaseId: leases[0]}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := limiter.RateLimit(ctx, ask("eve", "/jobs")); err != nil || !got.Passed {
		t.Fatalf("after a release: got %v, %v; want it passed", got, err)
	}
	if _, err := limiter.Release(ctx, &headgatev1.ReleaseRequest{LeaseId: "no lease"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no lease: got %v, want InvalidArgument", err)
	}
}

func TestSlotsAreHeldWhileTheyAreRenewed(t *testing.T) {
	clock := limittest.NewClock()
	_, address := start(t, Config{Engine: newEngine(t, newStore(t, clock.Now), parseRules(t, ruleText))})
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	ctx := patient(t)
	take := func() *headgatev1.RateLimitResponse {
		t.Helper()
		got, err := limiter.RateLimit(ctx, ask("eve", "/jobs"))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	renew := func(lease string) *headgatev1.RenewResponse {
		t.Helper()
		got, err := limiter.Renew(ctx, &headgatev1.RenewRequest{LeaseId: lease})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, second := take(), take()
	const ttl = headgate.DefaultTTL
	for range 3 {
		clock.Advance(ttl - time.Second)
		if got := renew(first.LeaseId); !got.Held || got.TtlMs != ttl.Milliseconds() {
			t.Fatalf("got %v; want it held for %v", got, ttl)
		}
	}
	if got := take(); !got.Passed {
		t.Fatalf("got %v; want the slot of the lease that was not renewed", got)
	}
	if got := take(); got.Passed {
		t.Fatalf("got %v; want it denied: the renewed lease holds a slot", got)
	}
	if got := renew(second.LeaseId); got.Held {
		t.Errorf("got %v; want the lease to be lost to another", got)
	}
	if _, err := limiter.Renew(ctx, &headgatev1.RenewRequest{LeaseId: "no lease"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no lease: got %v, want InvalidArgument", err)
	}
}

// wrong has invalid requests.
var wrong = map[string]struct {
	request *headgatev1.RateLimitRequest
	want    codes.Code
	says    string
}{
	"an unknown rule":      {&headgatev1.RateLimitRequest{RuleId: "none"}, codes.NotFound, `"none"`},
	"an unknown attribute": {&headgatev1.RateLimitRequest{Attributes: map[string]string{"colour": "red"}}, codes.InvalidArgument, `"colour"`},
	"no address":           {&headgatev1.RateLimitRequest{Client: &headgatev1.Client{ClientIp: "home"}}, codes.InvalidArgument, `"home"`},
	"a negative cost":      {&headgatev1.RateLimitRequest{Cost: proto.Int64(-1)}, codes.InvalidArgument, "-1"},
	"a giant cost":         {&headgatev1.RateLimitRequest{Cost: proto.Int64(headgate.MaxCount + 1)}, codes.InvalidArgument, "Cost"},
	"an attribute twice": {&headgatev1.RateLimitRequest{
		Client: &headgatev1.Client{UserId: "a"}, Attributes: map[string]string{"user": "b"},
	}, codes.InvalidArgument, "user"},
	"many attributes": {&headgatev1.RateLimitRequest{Attributes: manyAttributes(1000)}, codes.InvalidArgument, "attributes"},
}

func manyAttributes(n int) map[string]string {
	all := make(map[string]string, n)
	for i := range n {
		all["header.x-"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+strings.Repeat("y", i/50)] = "v"
	}
	return all
}

func TestInvalidRequestsGetAnError(t *testing.T) {
	_, address := start(t, Config{})
	limiter := headgatev1.NewRateLimiterClient(dial(t, address))
	ctx := patient(t)
	for name, tt := range wrong {
		_, err := limiter.RateLimit(ctx, tt.request)
		if status.Code(err) != tt.want || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %v with %s", name, err, tt.want, tt.says)
		}
	}
	if _, err := limiter.RateLimit(ctx, ask("a", strings.Repeat("/x", 1<<20))); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a giant message: got %v, want ResourceExhausted", err)
	}
	if got, err := limiter.RateLimit(ctx, ask("fred", "/api/x")); err != nil || !got.Passed || got.RemainingRequests != 2 {
		t.Errorf("after all that: got %v, %v; want a decision", got, err)
	}
}

func TestBatchResponsesAreInOrderAndIndependent(t *testing.T) {
	for name, parallel := range map[string]int{"one by one": 1, "side by side": 8} {
		t.Run(name, func(t *testing.T) {
			_, address := start(t, Config{Parallel: parallel})
			limiter := headgatev1.NewRateLimiterClient(dial(t, address))
			ctx := patient(t)
			var requests []*headgatev1.RateLimitRequest
			for i := range 200 {
				user := "user" + string(rune('a'+i%20))
				switch i % 20 {
				case 7:
					requests = append(requests, wrong["an unknown rule"].request)
				case 13:
					requests = append(requests, ask("mallory", "/"))
				default:
					requests = append(requests, ask(user, "/api/x"))
				}
			}
			got, err := limiter.BatchRateLimit(ctx, &headgatev1.BatchRateLimitRequest{Requests: requests})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Responses) != len(requests) {
				t.Fatalf("got %d answers to %d requests", len(got.Responses), len(requests))
			}
			passed := map[string]int{}
			for i, a := range got.Responses {
				switch {
				case i%20 == 7:
					if a.Error.GetCode() != int32(codes.NotFound) || a.Passed {
						t.Errorf("%d: got %v, want NotFound", i, a)
					}
				case i%20 == 13:
					if a.Reason != headgatev1.Reason_REASON_BLOCKED || a.Error != nil {
						t.Errorf("%d: got %v, want it blocked", i, a)
					}
				case a.Error != nil || a.Limit != 3:
					t.Errorf("%d: got %v, want a decision of 3", i, a)
				case a.Passed:
					passed[requests[i].Client.UserId]++
				}
			}
			if len(passed) != 18 {
				t.Errorf("got %d clients that passed, want 18", len(passed))
			}
			for user, n := range passed {
				if n != 3 {
					t.Errorf("%s: passed %d times, want 3 of 10", user, n)
				}
			}
			if empty, err := limiter.BatchRateLimit(ctx, &headgatev1.BatchRateLimitRequest{}); err != nil || len(empty.Responses) != 0 {
				t.Errorf("an empty batch: got %v, %v", empty, err)
			}
			giant := &headgatev1.BatchRateLimitRequest{}
			for range DefaultMaxBatch + 1 {
				giant.Requests = append(giant.Requests, &headgatev1.RateLimitRequest{})
			}
			if _, err := limiter.BatchRateLimit(ctx, giant); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "1000") {
				t.Errorf("a giant batch: got %v, want InvalidArgument with the bound", err)
			}
			giant.Requests = giant.Requests[:DefaultMaxBatch]
			if got, err := limiter.BatchRateLimit(ctx, giant); err != nil || len(got.Responses) != DefaultMaxBatch {
				t.Errorf("the largest batch: got %d answers, %v", len(got.GetResponses()), err)
			}
		})
	}
}
