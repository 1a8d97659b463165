package envoyrls_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/server/service/envoyrls"
)

func TestHitsAreCountedByLimitAndNamesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", `
domain: api
descriptors:
- {key: plain, rate_limit: {unit: hour, requests_per_unit: 10}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: detailed, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 10}}
- key: route
  value_to_metric: true
  descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 10}}
- key: verb
  value: GE*
  value_to_metric: true
  rate_limit: {unit: hour, requests_per_unit: 10}
  descriptors:
  - {key: user, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 10}}
- {key: free, value_to_metric: true, rate_limit: {unlimited: true}}
- {key: file, value: f*, share_threshold: true, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 10}}
`)
	now := func() time.Time { return begin }
	s := newServer(t, envoyrls.Config{Path: dir, CountDenied: true, Now: now, Store: newStore(t, memstore.Options{MaxBytes: 16 << 20, Now: now})})
	client := dial(t, s)
	ask := func(hits uint32, pairs ...string) {
		r := &rlspb.RateLimitRequest{Domain: "api", HitsAddend: hits, Descriptors: []*ratelimitpb.RateLimitDescriptor{{}}}
		for i := 0; i < len(pairs); i += 2 {
			r.Descriptors[0].Entries = append(r.Descriptors[0].Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
		}
		if _, err := client.ShouldRateLimit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	ask(8, "plain", "x")
	ask(1, "plain", "x")
	ask(5, "plain", "x")
	ask(3, "shadow", "x")
	ask(1, "detailed", "one")
	ask(2, "detailed", "two")
	ask(4, "route", "GET", "user", "alice")
	ask(1, "verb", "GET")
	ask(2, "verb", "GEX", "user", "bob")
	ask(7, "free", "bird")
	ask(2, "file", "f1")
	ask(3, "file", "f2")
	hits := func() map[string]envoyrls.Hits {
		all := map[string]envoyrls.Hits{}
		for _, h := range s.Stats().Limits {
			all[h.Domain+"/"+h.Descriptor] = h
		}
		return all
	}
	for name, want := range map[string]envoyrls.Hits{
		"api/plain":             {Domain: "api", Descriptor: "plain", Within: 8, Near: 1, Over: 5},
		"api/shadow":            {Domain: "api", Descriptor: "shadow", Shadow: 3},
		"api/detailed_one":      {Domain: "api", Descriptor: "detailed_one", Within: 1},
		"api/detailed_two":      {Domain: "api", Descriptor: "detailed_two", Within: 2},
		"api/route_GET.user":    {Domain: "api", Descriptor: "route_GET.user", Within: 4},
		"api/file_f*":           {Domain: "api", Descriptor: "file_f*", Within: 5},
		"api/route.user":        {Domain: "api", Descriptor: "route.user"},
		"api/verb_GET":          {Domain: "api", Descriptor: "verb_GET", Within: 1},
		"api/verb_GEX.user_bob": {Domain: "api", Descriptor: "verb_GEX.user_bob", Within: 2},
		"api/free_bird":         {Domain: "api", Descriptor: "free_bird", Within: 7},
	} {
		if got := hits()[name]; got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	// After a change of the configuration the counters continue.
	loads := s.Stats().Loads
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := hits()["api/detailed_two"].Within; got != 2 || s.Stats().Loads != loads {
		t.Errorf("after a reload without a change: got %d within and %d loads, want 2 and %d", got, s.Stats().Loads, loads)
	}
	write(t, dir, "b.yaml", limits("other", 1))
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := hits()["api/plain"].Within; got != 8 {
		t.Errorf("after a reload: got %d within, want 8", got)
	}
	ask(1, "detailed", strings.Repeat("long", 10_000))
	if got := hits(); got["api/(other)"].Within != 1 {
		t.Errorf("a value of 40,000 bytes: got %v, want it under (other)", got)
	}
	var call envoyrls.Call
	for i := range envoyrls.MaxDetailedNames + 500 {
		request := marshal(t, &rlspb.RateLimitRequest{Domain: "api", Descriptors: []*ratelimitpb.RateLimitDescriptor{
			{Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "detailed", Value: fmt.Sprint("v", i)}}},
		}})
		if _, err := call.Answer(t.Context(), s, request); err != nil {
			t.Fatal(err)
		}
	}
	if got := hits()["api/(other)"].Within; got != 501 {
		t.Errorf("got %d hits under (other), want 501", got)
	}
}

func TestReturnedHitsAreNotCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "a.yaml", limits("api", 10))
	s := newServer(t, envoyrls.Config{Path: dir, CountDenied: true})
	client := dial(t, s)
	for _, hits := range []int64{6, -4, 1, -math.MaxInt64} {
		r := asking("api", "a")
		r.Descriptors[0].HitsAddend, r.Descriptors[0].IsNegativeHits = wrapperspb.UInt64(uint64(max(hits, -hits))), hits < 0
		if _, err := client.ShouldRateLimit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	want := envoyrls.Hits{Domain: "api", Descriptor: "user", Within: 7}
	if got := s.Stats().Limits; !slices.Contains(got, want) {
		t.Errorf("got %+v, want %+v among them", got, want)
	}
}
