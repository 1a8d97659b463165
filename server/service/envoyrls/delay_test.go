package envoyrls_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/server/service/envoyrls"
)

// delaying returns a server that delays requests over a limit, and a client of it.
func delaying(t *testing.T, limit, action string) (*engine.Engine, rlspb.RateLimitServiceClient) {
	t.Helper()
	text := "rules:\n- {id: slow, key: [descriptor.user], fallback: skip, limits: [" + limit + "], on_limit: " + action + "}\n"
	doc, err := file.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	store := newSmallStore(t)
	e, err := engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		t.Fatal(err)
	}
	return e, dial(t, newServer(t, envoyrls.Config{Engine: e, Store: store}))
}

func TestResponseWaitsForADelayRule(t *testing.T) {
	t.Parallel()
	e, client := delaying(t, "10/s burst 1", "delay 20s")
	start := time.Now()
	const n = 5
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			r, err := client.ShouldRateLimit(t.Context(), asking("api", "u"))
			if err != nil || r.OverallCode != rlspb.RateLimitResponse_OK {
				t.Errorf("got %v, %v; want OK after a while", r, err)
			}
		})
	}
	group.Wait()
	if took, least := time.Since(start), (n-1)*100*time.Millisecond; took < least-time.Millisecond {
		t.Errorf("all %d passed in %v, want them to take %v at least", n, took, least)
	}
	// A call that is canceled while it waits gets its context's error, and frees its turn.
	for range 3 {
		if _, err := client.ShouldRateLimit(t.Context(), asking("api", "u")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		long := asking("api", "u")
		_, err := client.ShouldRateLimit(ctx, long)
		failed <- err
	}()
	await.True(t, "somebody waits", func() bool { return e.Waiting() > 0 || len(failed) > 0 })
	cancel()
	if err := <-failed; err != nil && grpcstatus.Code(err) != codes.Canceled {
		t.Errorf("got %v, want Canceled or an answer", err)
	}
	await.True(t, "nobody waits", func() bool { return e.Waiting() == 0 })
}

// A request waits for the longest delay of its rules, and leaves nothing behind if it is canceled.
func TestSeveralDelaysOverlap(t *testing.T) {
	t.Parallel()
	e, client := delaying(t, "1/s burst 1", "delay 30s")
	request := &rlspb.RateLimitRequest{Domain: "api"}
	const n = 20
	for i := range n {
		request.Descriptors = append(request.Descriptors, &ratelimitpb.RateLimitDescriptor{
			Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "user", Value: fmt.Sprint("u", i)}},
		})
	}
	if _, err := client.ShouldRateLimit(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if r, err := client.ShouldRateLimit(t.Context(), request); err != nil || r.OverallCode != rlspb.RateLimitResponse_OK {
		t.Errorf("got %v, %v; want OK after a while", r, err)
	}
	if took := time.Since(start); took > n*time.Second/2 {
		t.Errorf("%d delays of a second took %v, want them to pass together", n, took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		for {
			if _, err := client.ShouldRateLimit(ctx, request); err != nil {
				failed <- err
				return
			}
		}
	}()
	await.True(t, "all wait", func() bool { return e.Waiting() == n })
	cancel()
	if err := <-failed; grpcstatus.Code(err) != codes.Canceled {
		t.Errorf("got %v, want Canceled", err)
	}
	await.True(t, "nobody waits", func() bool { return e.Waiting() == 0 })
}
